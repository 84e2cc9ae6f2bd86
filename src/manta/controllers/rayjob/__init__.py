"""The life of a RayJob.

    New ─► Initializing ─► Running ─► Complete | Failed ─► (deletion by rule)
                │   └► Waiting ─┘ ▲       │
                ▼        (Interactive)    └► Retrying ─► New      (a new cluster for each attempt)
            Suspending ─► Suspended ─► New

Rule 1: everything that moves a RayJob from one stage to another is in `stages/`.
Rule 2: an identity (submission id, cluster name) is in status one round before anything in the
        world bears it. A crash in between then repeats, never doubles.
Rule 3: what Ray says of the job is the truth; a submitter's exit code is not.
Rule 4: which head the job was handed to is written down before it is handed over. A head that
        comes back empty has lost the job: that is a failure, and never a silent second run.
"""
