"""History: logs, tasks and jobs of Ray clusters that are gone.

layout     the names of the objects in a store
store      objects by URL: `file://`, `s3://`, `gs://`, `az://`
ship       appends new bytes of log files and posted events to a store
index      one SQLite file for each session, built from the stored events
catalog    the sessions of a store, and their indexes
"""
