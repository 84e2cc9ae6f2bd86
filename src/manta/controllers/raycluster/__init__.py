"""RayCluster.

`observe.py` reads the caches into one frozen `ClusterSnapshot`. `plan.py` lists the planners in order;
each plans one concern. The executor executes the plan, and `status.py` computes `.status` from the
snapshot and the outcome.

    created    Services, accounts and claims first, then the head, then the workers
    ready      when head and all wanted workers are Running and Ready; stays so until suspended
    changed    `replicas` scales; another template recreates Pods only with the Recreate strategy
    suspended  Suspending (Pods are deleted) -> Suspended -> resumed by `suspend: false`
    deleted    the garbage collector deletes the children; with Redis, a Job cleans it first

The condition `Blocked` says which Pod and container fails, and why. It stays until all Pods are ready,
so its transition time is the start of the problem. The back-off of failed Pods
(`planners/backoff.py`) depends on that time, and survives a restart of the operator.
"""
