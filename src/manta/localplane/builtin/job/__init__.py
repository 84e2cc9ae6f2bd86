"""The Job controller: Pods until enough of them have succeeded.

A Job gets a start time and Pods; every Pod has the finalizer
`batch.kubernetes.io/job-tracking`, so that none is deleted before it is counted. A Pod that ended is first
written to `status.uncountedTerminatedPods`, then its finalizer is removed, then it is counted: a crash
in between repeats a step and never counts twice. Failed Pods are replaced after a
growing delay. When the Job is decided (enough successes, too many failures, out of time) it gets
the condition SuccessCriteriaMet or FailureTarget, its other Pods are deleted, and once they are gone it gets
Complete or Failed.

`tally` counts Pods, `verdict` decides whether the Job has ended, `plan` plans actions, `status`
computes the status; all are pure.

An Indexed Job numbers its completions (`indexes`); a pod failure policy says which failures end
the Job or do not count (`failure_policy`).

Not done: backoff limits per index and success policies (such Jobs run as if they had none), and
adoption of Pods that users created.
"""
