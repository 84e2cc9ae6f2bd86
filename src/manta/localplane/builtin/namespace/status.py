"""What a namespace on its way out says about what holds it up. Pure."""

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
"""Said by Kubernetes in any case; a kind that cannot be discovered here does not exist."""
_DELETED = (
    "ContentDeleted",
    "All content successfully deleted, may be waiting on finalization",
)


def next_status(seen: NamespaceSnapshot, outcome: Outcome) -> NamespaceStatus:
    if seen.namespace.metadata.deletion_timestamp is None or not seen.remaining:
        return seen.namespace.status
    conditions = seen.namespace.status.conditions or ()
    for condition in (*_DISCOVERED, _deletion(outcome), _content(seen), _finalizers(seen)):
        conditions = set_condition(conditions, condition, seen.now)
    return msgspec.structs.replace(
        seen.namespace.status, phase="Terminating", conditions=conditions
    )


def _deletion(outcome: Outcome) -> Condition:
    type_ = "NamespaceDeletionContentFailure"
    if failure := outcome.failure:
        message = f"Failed to delete all resource types: {failure.error}"
        return Condition(type=type_, status="True", reason="ContentDeletionFailed", message=message)
    return Condition(type=type_, status="False", reason=_DELETED[0], message=_DELETED[1])


def _content(seen: NamespaceSnapshot) -> Condition:
    parts = sorted(
        f"{resource.plural}.{resource.group} has {left.count} resource instances"
        for resource, left in seen.remaining.items()
    )
    return Condition(
        type="NamespaceContentRemaining",
        status="True",
        reason="SomeResourcesRemain",
        message=f"Some resources are remaining: {', '.join(parts)}",
    )


def _finalizers(seen: NamespaceSnapshot) -> Condition:
    held: Counter[str] = Counter()
    for left in seen.remaining.values():
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
