"""Ray dashboards, each on an origin of its own: they show what the users of a cluster wrote.

A dashboard is another site than the console and another origin than any other dashboard, so its scripts cannot read
the console's pages or cookies. A ticket, used once, leads a browser there.
"""
