"""A plan as text and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manta.api.meta import Key
from manta.reconcile.actions import Action, Call
from manta.reconcile.preview import Preview

NOT_FOUND = "does not exist, or another operator manages it"


def describe(kind: str, key: Key, found: Preview | None) -> Iterator[str]:
    """One line for each action."""
    if found is None:
        yield f"{kind} {key}: {NOT_FOUND}"
        return
    yield f"{kind} {key}: {found.effect}"
    for change in found.changes:
        yield f"  edit     {change}"
    for violation in found.violations:
        yield f"  invalid  {violation}"
    for number, stage in enumerate(found.plan.stages, 1):
        for action in stage.actions:
            yield f"  {number}. {_action(action)}"
    for number, step in enumerate(found.order if not found.violations else (), 1):
        yield f"  order {number:3}. {step}"
    for remark in (*found.remarks, *found.plan.notes):
        yield f"  note: {remark}"
    if found.plan.unfinished and not found.violations:
        yield f"  {found.plan.unfinished}"
    if found.plan.wait and not found.violations:
        yield f"  then waits: {found.plan.wait.why}"


def as_document(kind: str, key: Key, found: Preview | None, settings: str) -> dict[str, Any]:
    """The plan as a JSON document."""
    named = {"kind": kind, "namespace": key.namespace, "name": key.name, "settings": settings}
    if found is None:
        return {**named, "found": False, "effect": NOT_FOUND}
    return {
        **named,
        "found": True,
        "effect": str(found.effect),
        "valid": not found.violations,
        "violations": list(found.violations),
        "changes": list(found.changes),
        "actions": [
            {"stage": number, **_action_document(action)}
            for number, stage in enumerate(found.plan.stages, 1)
            for action in stage.actions
        ],
        **({"order": list(found.order)} if found.order else {}),
        "notes": [*found.remarks, *found.plan.notes],
        "waitsFor": found.plan.wait.why if found.plan.wait else "",
    }


def _action(action: Action) -> str:
    words = _action_document(action)
    return f"{words['verb']} {words['kind']} {action.key}: {words['why']}"


def _action_document(action: Action) -> dict[str, str]:
    return {
        "verb": type(action).__name__.lower(),
        "kind": action.verb if isinstance(action, Call) else action.resource.kind,
        "namespace": action.key.namespace,
        "name": action.key.name,
        "why": action.why or str(action.cause),
    }
