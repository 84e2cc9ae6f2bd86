"""The DaemonSet controller: one Pod on every node that its template may run on.

`snapshot` is a DaemonSet with its Pods, revisions and the nodes; `eligibility` says on which nodes
Pods may start and stay, and builds the Pod of a node; `plan` decides, `status` reports. All pure;
`controller` ties them to the API. The scheduler binds the Pods: each names its node by affinity.

A rolling update replaces the Pods of at most `maxUnavailable` nodes at a time; with `maxSurge` the
new Pod of a node becomes available before the old one is deleted.
"""
