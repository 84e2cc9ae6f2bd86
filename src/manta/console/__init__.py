"""The console: pages on which people see and steer their Ray clusters.

Informers fill a frozen `Snapshot`, pages are pure functions of it, and the handler sends them with the rights
of the person who asks. Nothing here is imported unless `manta console` runs.
"""
