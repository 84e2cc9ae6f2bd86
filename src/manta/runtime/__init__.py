"""The controller runtime: informers, work queues, freshness, election. Knows Kubernetes, not Ray.

An `informer` keeps a `cache` of one resource and calls handlers on changes; a `controller` puts the keys that
a change concerns on its `queue` and reconciles each; `freshness` delays a key while the cache is older than
our own writes; the `manager` starts, supervises and stops all of it. Time comes from `clock`, randomness from
one seeded source, so that tests can run the whole operator under a virtual clock.
"""
