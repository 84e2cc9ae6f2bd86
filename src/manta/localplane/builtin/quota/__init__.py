"""ResourceQuota: how much of what it limits is in use, kept up to date in its status.

Refusing what would exceed a quota is the server's admission; this controller counts, above all
when something goes away or ends. `usage` is pure, `controller` ties it to the API.
"""
