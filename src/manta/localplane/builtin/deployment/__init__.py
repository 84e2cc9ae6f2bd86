"""The Deployment controller: one ReplicaSet per template, and the way from one to the next.

`snapshot` is a Deployment with its ReplicaSets; `rollout` does the arithmetic of a step; `plan`
turns it into actions; `status` says how far it got. All pure; `controller` ties them to the API.

A rolling update never has fewer than `replicas - maxUnavailable` available Pods nor more than
`replicas + maxSurge` in all. Recreate takes the old Pods away first. Not done: proportional
scaling of several ReplicaSets in the middle of a rollout (the newest takes the difference).
"""
