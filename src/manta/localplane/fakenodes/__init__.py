"""Fake nodes: a scripted kubelet for tests and benchmarks. No container ever runs.

The nodes register as Ready and renew a Lease. Pods that are bound to them pass through their stages on
the clock: Pending, Running, Ready, and finally Succeeded, Failed or deleted. The annotation
`fake.manta.io/script` says what a Pod does, as words separated by spaces:

    start=2          containers run 2 s after the Pod was bound
    start=never      they never run (as with a missing volume)
    pull=error       the image cannot be pulled: ErrImagePull, then ImagePullBackOff
    pull=error:30    the same, but after 30 s it can
    init-exit=42     the first init container ends with 42, again and again unless restartPolicy
                     is Never
    ready=5          Ready 5 s after Running; ready=never
    exit=1@10        the containers end with code 1 after running for 10 s
    exit=0@10/name   only this container does
    oom@10           they end with 137 and the reason OOMKilled
    evict@10         the node evicts the Pod: Failed, Evicted
    run              the containers run forever
    stop=20          termination takes 20 s (but no longer than the grace period); stop=never:
                     the Pod stays Terminating until it is deleted by force

Several of exit, oom and run describe one start of the containers after the other: with
`exit=1@3 exit=1@3 run` they crash twice and then run. The last one repeats. A Pod of a Job without
a script ends with 0 after a second; any other Pod runs forever. A Pod that is resized shows its new
size at once.

`script` parses these words, `pod_lifecycle` has the stages, `pod_status` and `node_status` build the
status of Pods and nodes (all pure); `controller` connects them to the API server and the clock.
"""
