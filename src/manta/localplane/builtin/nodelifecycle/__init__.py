"""Node lifecycle: a node whose kubelet falls silent is marked, tainted and, in time, emptied.

A kubelet renews its Lease every few seconds. When no renewal was *seen* for the grace period (the
node's own clock is not trusted), Ready becomes Unknown, the taints `unreachable` keep new Pods
away, and Pods go when they no longer tolerate them: five minutes later, unless they say otherwise.
Pods of a node that does not exist any more are removed by force. `snapshot` and `plan` are pure;
`controller` ties them to the API.
"""
