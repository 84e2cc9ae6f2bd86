"""OpenAPI v3: an index, and one document per group and version, made when somebody asks.

kubectl refuses to create or apply without it, and explains kinds with it. Descriptions exist
where a CRD brings them; built-in kinds show their fields and types.
"""
