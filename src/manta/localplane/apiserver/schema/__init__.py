"""OpenAPI schemas of objects.

A schema is compiled to a graph of immutable nodes; equal subschemas share a node. Each use of the graph
has a module: `pruning` removes unknown fields, `defaulting` sets defaults, `validation`, `list_types`
and `rules` find invalid values, and `structural` checks the schema of a CRD itself. No function changes
its arguments.
"""
