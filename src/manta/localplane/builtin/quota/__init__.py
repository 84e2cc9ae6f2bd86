"""ResourceQuota: keeps the usage in its status up to date.

The API server's admission refuses requests beyond a quota; this controller counts, above all when
objects are deleted or end. `usage` is pure.
"""
