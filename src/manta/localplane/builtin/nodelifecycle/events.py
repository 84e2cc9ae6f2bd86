"""The Events of the node controller: one line per cause. An empty reason is not told, on purpose."""

from __future__ import annotations

from manta.localplane.builtin.nodelifecycle.plan import Cause
from manta.reconcile.events import EventTable, Reasons

EVENTS: EventTable = {
    **{cause: Reasons("Update") for cause in Cause},
    Cause.SILENT: Reasons(
        "Update", "NodeNotReady", done_note="Node {key.name} status is now: NodeNotReady"
    ),
    Cause.EVICT: Reasons(
        "Delete", "TaintManagerEviction", done_note="Marking for deletion Pod {key}"
    ),
}
