"""Suspends RayClusters that nobody uses, after the time that they or the operator set.

    observe         the RayCluster and its head, from the caches; Ray's answer whether it is used, when that is due
    plan            note since when it is idle, announce the suspension, suspend it by `spec.suspend`
    next_status     the condition Idle: since when, or by what it is used, or why that is not known
    next_wakeup     the next question to Ray

It writes only when something changes. What it knows is on the RayCluster, in annotations: an operator that is
restarted goes on where the last one ended. It touches no cluster that has no limit, and sends no request for it.

An answer that is missing, partial or unknown is never "idle", and does not restart the clock either. The
evidence in an annotation (the head, and counters of Ray) tells after any pause whether the cluster was used
meanwhile. Only `spec.suspend` joins it with the RayCluster controller.
"""
