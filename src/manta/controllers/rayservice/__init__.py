"""The RayService controller.

    no cluster ─► pending ─► (its Serve applications all run, a Pod takes requests) ─► active
                                                                                         │
    active + pending  ◄──── a spec that needs new Pods ──────────────────────────────────┘
        │   the pending cluster becomes ready while the active one keeps serving
        ▼
    the Services select the pending cluster, it becomes active, the old one is deleted after a delay

Rule 1: the name of a cluster is in the status one reconcile before the cluster is created. A crash in
        between repeats the creation of the same name and creates nothing twice.
Rule 2: the cluster that the serve Service selects is the one that serves. The status follows it.
Rule 3: Services select a cluster only if its declared applications all run and one of its Pods is
        ready to take requests.
Rule 4: the status records the config that each head got. A restart of the operator submits nothing
        twice, and a head that lost its applications gets them back.
Rule 5: an annotation of an old cluster says when it is deleted, so that a restart moves no deadline.
"""
