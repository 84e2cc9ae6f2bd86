"""The Job controller: Pods until enough of them have succeeded.

The life of a Job: it gets a start time and Pods; every Pod carries the finalizer
`batch.kubernetes.io/job-tracking`, so that none vanishes uncounted. A Pod that ended is first
written to `status.uncountedTerminatedPods`, then loses the finalizer, then is counted: a crash
between any two of these repeats a step and never counts twice. Failed Pods are replaced after a
growing delay. When the Job is decided (enough successes, too many failures, out of time) it gets
the condition SuccessCriteriaMet or FailureTarget, its other Pods go, and once they are gone
Complete or Failed.

`snapshot` is all a round may know, `tally` counts Pods, `verdict` says whether the Job is decided,
`plan` chooses actions, `status` writes down what is known, `controller` ties them to the API.

An Indexed Job numbers its completions (`indexes`); a pod failure policy says which failures end
the Job or do not count (`failure_policy`).

Not done: backoff limits per index and success policies (such Jobs run as if they had none), and
adoption of Pods made by hand.
"""
