"""Emptying a namespace, step by step. Pure."""

from __future__ import annotations

from enum import StrEnum

from manta.api.meta import Key
from manta.api.resources import EVENTS, PODS, Resource
from manta.localplane.builtin.namespace.snapshot import FINALIZER, NamespaceSnapshot
from manta.reconcile.actions import Call
from manta.reconcile.plan import NOTHING, Plan, Wait, do

DELETE_ALL = "delete all of a kind"
FINALIZE = "finalize"


class Cause(StrEnum):
    EMPTY = "the namespace is being deleted"
    FINALIZE = "nothing is left in the namespace"


def plan(seen: NamespaceSnapshot) -> Plan:
    namespace = seen.namespace
    if namespace.metadata.deletion_timestamp is None:
        return NOTHING
    if FINALIZER not in (namespace.spec.finalizers or ()):
        return NOTHING
    if not seen.remaining:
        # Nobody follows Events; they go last, so that they can tell of the rest.
        events = _delete_all(namespace.name, EVENTS)
        return do(events).then(do(Call(FINALIZE, namespace.metadata.key, Cause.FINALIZE)))
    turn = [PODS] if PODS in seen.remaining else [*seen.remaining]
    calls = [_delete_all(namespace.name, one) for one in turn if seen.remaining[one].untouched > 0]
    what = ", ".join(one.group_resource for one in turn)
    return do(*calls, wait=Wait(f"until {what} are gone from namespace {namespace.name}"))


def _delete_all(namespace: str, resource: Resource) -> Call:
    return Call(
        DELETE_ALL,
        Key(namespace, resource.group_resource),
        Cause.EMPTY,
        arguments={"resource": resource},
    )
