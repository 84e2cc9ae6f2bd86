"""Why this controller acts, and the Event that each cause leaves behind."""

from __future__ import annotations

from manta.reconcile.causes import ONLY_FAILURES, ActionCause, Reasons

CONTROLLER = "idlesuspend-controller"


class Cause(ActionCause):
    IDLE = ONLY_FAILURES, "nobody uses the cluster"
    FORGET = ONLY_FAILURES, "what was recorded is no longer true"
    USAGE = ONLY_FAILURES, "the hours of the cluster are counted by other resources from now on"
    USED_AGAIN = (
        Reasons(
            action="CancelIdleSuspend",
            done="IdleSuspendCancelled",
            done_note="Not suspended: {why}",
        ),
        "it is used again after the announcement",
    )
    WARNING = (
        Reasons(
            action="AnnounceIdleSuspend",
            done="IdleSuspendWarning",
            failed="FailedToAnnounceIdleSuspend",
            done_note="{why}",
            failed_note="Failed to announce the suspension of {key}: {error}",
            done_type="Warning",
        ),
        "nobody uses the cluster: it will be suspended",
    )
    SUSPEND = (
        Reasons(
            action="IdleSuspend",
            done="IdleSuspended",
            failed="FailedToIdleSuspend",
            done_note="{why}",
            failed_note="Failed to suspend {key}, which is idle: {error}",
        ),
        "nobody used the cluster for as long as its limit allows",
    )
    RESUMED = (
        Reasons(
            action="IdleResume",
            done="IdleResumed",
            done_note="Resumed after a suspension for idleness",
        ),
        "somebody resumed a cluster that slept",
    )
