"""The life of a RayCluster: one page.

A round sees one frozen `ClusterSnapshot`, read from the caches. `plan.py` lists the planners in
order; each decides one concern and touches nothing. What they ask for is performed, and
`status.py` turns what was seen and what came of it into `.status`.

    created    Services, accounts and claims first, then the head, then the workers
    ready      when head and all wanted workers are Running and Ready; stays so until suspended
    changed    `replicas` scales; another template recreates only if the strategy says so
    suspended  Suspending (Pods go) -> Suspended (nothing left) -> resumed by `suspend: false`
    deleted    owners take their children along; with Redis behind the head, a Job cleans it first

What goes wrong is told in the condition `Blocked`: which Pod, which container, and why. It stays
until the cluster is whole again, so its transition time says how long the trouble lasts; failing
Pods are replaced ever more slowly by it (`planners/backoff.py`), and a restart forgets nothing.
"""
