"""Node lifecycle: marks and taints a node whose kubelet does not answer, and evicts its Pods.

A kubelet renews its Lease every few seconds. If no renewal arrives for the grace period (by our clock,
not the node's), Ready becomes Unknown and the taints `unreachable` are set. Pods are evicted when
their toleration ends, by default after five minutes. Pods of a node that no longer exists are deleted
without grace. `snapshot` and `plan` are pure.
"""
