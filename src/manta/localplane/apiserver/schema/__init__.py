"""What an object may look like: schemas compiled once, then asked often.

A schema is compiled to a graph of immutable nodes; equal subschemas are one node. The graph
answers four questions, each in its own module: which fields are unknown (`pruning`), what is
missing but has a default (`defaulting`), what is wrong (`validation`, `list_types`, `rules`),
and is the schema itself acceptable (`structural`). Nothing here changes what it is given.
"""
