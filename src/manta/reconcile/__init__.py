"""The words of a reconcile, and the base class that runs one.

`actions`, `plan`, `outcome` and `step` are pure values that all controllers share. `reconciler` runs
the phases of a controller, `executor` executes its plan, `status_writer` writes its status and
`events` turns the outcome into Events.
"""
