"""The ReplicaSet controller: so many Pods of one template, no more and no fewer.

Orphans that the selector matches are adopted, own Pods that it no longer matches are let go.
`snapshot`, `plan` and `status` are pure; `controller` ties them to the API.
"""
