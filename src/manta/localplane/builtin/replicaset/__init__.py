"""The ReplicaSet controller: the wanted number of Pods of one template.

It adopts orphans that the selector matches, and releases Pods that it no longer matches. `snapshot`,
`plan` and `status` are pure.
"""
