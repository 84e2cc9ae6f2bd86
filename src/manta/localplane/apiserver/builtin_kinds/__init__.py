"""The built-in kinds: their fields, defaults, validation and warnings.

A generated table (`kinds.json`, see tools/protobuf) says how each kind looks in JSON and in
protobuf and how its lists merge. The rest is written by hand, one file per family of kinds, and
only for what clients can observe. Functions do not change the objects that they are given, unless they say so.
"""
