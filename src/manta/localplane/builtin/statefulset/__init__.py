"""The StatefulSet controller: Pods with stable names, each with its own claims.

`snapshot` is a StatefulSet with its Pods, revisions and claims; `identity` names Pods and claims;
`plan` decides the next step; `status` reports. All pure; `controller` ties them to the API.

OrderedReady makes one change at a time: Pods start from the lowest ordinal, each waits until the
one before it is available, and the highest ordinal is deleted first. Parallel makes all changes at
once. A rolling update deletes Pods from the highest ordinal down to `partition`, with at most
`maxUnavailable` (1) unavailable.
"""
