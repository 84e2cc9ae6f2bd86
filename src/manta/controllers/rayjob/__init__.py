"""The RayJob controller.

    New ─► Initializing ─► Running ─► Complete | Failed ─► (deletion by rule)
                │   └► Waiting ─┘ ▲       │
                ▼        (Interactive)    └► Retrying ─► New      (a new cluster for each attempt)
            Suspending ─► Suspended ─► New

Rule 1: only `stages/` moves a RayJob from one stage to another.
Rule 2: a name (submission id, cluster name) is in the status one reconcile before an object has it.
        A crash in between repeats the creation of the same name and creates nothing twice.
Rule 3: what Ray reports of the job decides; the exit code of a submitter does not.
Rule 4: the head that gets the job is recorded before the submission. A head that restarts without
        its memory has lost the job: the attempt fails, and the job is never run again silently.
"""
