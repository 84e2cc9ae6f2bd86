"""The namespace controller: a namespace goes when all that was in it is gone.

Pods go first, as in Kubernetes, so that nothing that restrains them (network policies) vanishes
before them; then everything else; then the finalizer `kubernetes`. `snapshot`, `plan` and `status`
are pure; `controller` counts what is left and carries the plan out.
"""
