"""All objects of all kinds, seen by their metadata only: for the garbage collector and namespaces.

`discovery` reads which kinds are served (pure), `trace` is the little that is kept of each object,
`watcher` follows every kind and takes up a new one as soon as its definition is established.
"""
