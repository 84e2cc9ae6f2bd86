"""The life of a RayService.

    no cluster ─► pending ─► (its Serve applications all run, a Pod takes requests) ─► active
                                                                                         │
    active + pending  ◄──── a spec that needs new Pods ──────────────────────────────────┘
        │   the pending cluster is made ready beside the active one, which keeps serving
        ▼
    Services re-pointed, pending becomes active, the old cluster is deleted after a while

Rule 1: the name of a cluster is in status one round before the cluster exists. A crash in between
        then repeats, never doubles.
Rule 2: which cluster serves is what the serve Service selects. Status follows it, never leads it.
Rule 3: Services are pointed only to a cluster whose declared applications all run and that has a
        Pod ready to take requests.
Rule 4: what a cluster's Serve was told, and on which incarnation of the head, is written on the
        RayCluster. A restart of ours submits nothing twice; a head that lost its applications gets
        them back.
Rule 5: when an old cluster is to go is written on it, so that a restart of ours moves no deadline.
"""
