"""A rolling update: which Pods are outdated, which may be replaced now, and how far it is. Pure.

    recorded   a ControllerRevision holds the spec of every edit that changes Pods; the newest is the target
    groups     one worker group after the other, in the order of the spec, within maxSurge and maxUnavailable
    head       last, and only if its state survives, or with consent
    stopped    no progress for `progressDeadlineSeconds`; with `onFailure: rollback` the target becomes the
               last revision that was complete, and the spec stays the user's

Everything is read from Pods and ControllerRevisions, so a restarted operator continues where the last one
was. `planners/rolling_update.py` acts on it, `condition.py` describes it.
"""
