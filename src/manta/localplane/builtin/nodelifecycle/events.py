"""The Events of the node controller: one line per cause. An empty reason is not told, on purpose."""

from __future__ import annotations

from manta.localplane.builtin.nodelifecycle.plan import Cause
from manta.reconcile.events import EventTable, Reasons

EVENTS: EventTable = {
    **{cause: Reasons("Update") for cause in Cause},
    Cause.SILENT: Reasons(
        "Update", "NodeNotReady", done_note="Node {key.name} status is now: NodeNotReady"
    ),
}

POD_EVENTS = {
    Cause.EVICT: ("Normal", "TaintManagerEviction", "Marking for deletion Pod {key}"),
    Cause.POD_NOT_READY: ("Warning", "NodeNotReady", "Node is not ready"),
}
"""What is told of the Pods of a node: type, reason and note."""
