"""`import manta`: Ray clusters, jobs, services and cron jobs from a Python program.

The names of this package that users import are in `manta` itself, which loads them when they are used.
"""
