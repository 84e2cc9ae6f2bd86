"""The controller runtime: informers, work queues, freshness, election. Knows Kubernetes, not Ray.

A walk through the room: an `informer` keeps a `cache` of one resource and tells handlers what
changed; a `controller` turns changes into keys on its `queue` and runs one round per key;
`freshness` holds a key back while the cache is older than our own writes; the `manager` starts,
watches over and stops all of it. Time and chance come from `clock` and one seeded random source,
so that `simulation` can run the whole operator under a virtual clock.
"""
