"""The built-in kinds: how they look, what is filled in, what is refused and what may not change.

A generated table (`kinds.json`, see tools/protobuf) says how each kind looks in JSON and in
protobuf and how its lists merge. The rest is written by hand, one file per family of kinds, and
only for what clients can observe. Nothing here changes what it is given.
"""
