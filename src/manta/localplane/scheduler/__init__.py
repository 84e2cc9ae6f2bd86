"""The scheduler: binds every unbound Pod to a node, or reports why none fits.

`pod_requests` sums the requests of a Pod, `node_cache` tracks the free resources of nodes, `placement`
chooses a node and `preemption` chooses Pods of lower priority to delete (both pure), and `scheduler`
reacts to watch events, tries the Pods by priority, and binds them.
"""
