"""The namespace controller: deletes everything in a namespace that is being deleted.

Pods first, as in Kubernetes, so that network policies outlive them; then everything else; then it
removes the finalizer `kubernetes`. `snapshot`, `plan` and `status` are pure.
"""
