"""Watches the metadata of all objects of all kinds: for the garbage collector, namespaces and quotas.

`discovery` reads which kinds are served, `partial_metadata` is what is kept of each object, `watcher`
watches every kind and starts with a new one as soon as its CRD is established.
"""
