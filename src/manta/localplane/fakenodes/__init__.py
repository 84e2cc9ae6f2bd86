"""Fake nodes: a scripted kubelet for tests and benchmarks. No container ever runs.

Nodes are registered with Ready and a Lease; Pods that are bound to them go through their phases on
the clock: Pending, Running, Ready, and at the end Succeeded, Failed or gone. What a Pod does is
written in its annotation `fake.manta.io/script`, as words separated by blanks:

    start=2          containers run 2 s after the Pod was bound
    start=never      they never do (a volume that is not there)
    pull=error       the image cannot be pulled: ErrImagePull, then ImagePullBackOff
    pull=error:30    the same, but after 30 s it can
    init-exit=42     the first init container ends with 42, again and again unless restartPolicy
                     is Never
    ready=5          Ready 5 s after Running; ready=never
    exit=1@10        the containers end with code 1 after running for 10 s
    exit=0@10/name   only this container does
    oom@10           they end with 137 and the reason OOMKilled
    evict@10         the node evicts the Pod: Failed, Evicted
    run              the containers run on
    stop=20          termination takes 20 s (but no longer than the grace period); stop=never:
                     the Pod stays Terminating until it is deleted by force

Several of exit, oom and run describe one start of the containers after the other: with
`exit=1@3 exit=1@3 run` they crash twice and then run. The last one repeats. A Pod of a Job without
a script ends with 0 after a second; any other Pod runs on. A Pod that is resized has its new size
at once.

`script` reads these words, `life` moves a Pod through its stages, `status` spells a Pod's status,
`machines` spells nodes (all pure); `kubelet` ties them to the API and the clock.
"""
