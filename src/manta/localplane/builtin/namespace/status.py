"""The conditions of a namespace that is being deleted. Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from manta.api.conditions import set_condition
from manta.api.meta import Condition
from manta.localplane.builtin.namespace.snapshot import NamespaceSnapshot
from manta.localplane.builtin.views import NamespaceStatus
from manta.reconcile.outcome import Outcome

_DISCOVERED = (
    Condition(
        type="NamespaceDeletionDiscoveryFailure",
        status="False",
        reason="ResourcesDiscovered",
        message="All resources successfully discovered",
    ),
    Condition(
        type="NamespaceDeletionGroupVersionParsingFailure",
        status="False",
        reason="ParsedGroupVersions",
        message="All legacy kube types successfully parsed",
    ),
)
"""Always set, as by Kubernetes: here discovery cannot fail for a single kind."""


def next_status(snapshot: NamespaceSnapshot, outcome: Outcome) -> NamespaceStatus:
    """The status, unchanged unless the namespace is being deleted and still has objects."""
    if snapshot.namespace.metadata.deletion_timestamp is None or not snapshot.remaining:
        return snapshot.namespace.status
    conditions = snapshot.namespace.status.conditions or ()
    for condition in (*_DISCOVERED, _deletion(outcome), _content(snapshot), _finalizers(snapshot)):
        conditions = set_condition(conditions, condition, snapshot.now)
    return msgspec.structs.replace(
        snapshot.namespace.status, phase="Terminating", conditions=conditions
    )


def _deletion(outcome: Outcome) -> Condition:
    type_ = "NamespaceDeletionContentFailure"
    if failure := outcome.failure:
        message = f"Failed to delete all resource types: {failure.error}"
        return Condition(type=type_, status="True", reason="ContentDeletionFailed", message=message)
    message = "All content successfully deleted, may be waiting on finalization"
    return Condition(type=type_, status="False", reason="ContentDeleted", message=message)


def _content(snapshot: NamespaceSnapshot) -> Condition:
    parts = sorted(  # `pods. has ...`: Kubernetes prints the empty group of Pods like this too
        f"{resource.plural}.{resource.group} has {left.count} resource instances"
        for resource, left in snapshot.remaining.items()
    )
    return Condition(
        type="NamespaceContentRemaining",
        status="True",
        reason="SomeResourcesRemain",
        message=f"Some resources are remaining: {', '.join(parts)}",
    )


def _finalizers(snapshot: NamespaceSnapshot) -> Condition:
    held: Counter[str] = Counter()
    for left in snapshot.remaining.values():
        held.update(left.finalizers)
    if not held:
        return Condition(
            type="NamespaceFinalizersRemaining",
            status="False",
            reason="ContentHasNoFinalizers",
            message="All content-preserving finalizers finished",
        )
    parts = (f"{name} in {count} resource instances" for name, count in sorted(held.items()))
    return Condition(
        type="NamespaceFinalizersRemaining",
        status="True",
        reason="SomeFinalizersRemain",
        message=f"Some content in the namespace has finalizers remaining: {', '.join(parts)}",
    )
