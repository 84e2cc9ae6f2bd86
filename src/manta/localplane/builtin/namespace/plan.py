"""Emptying a namespace, step by step. Pure."""

from __future__ import annotations

from manta.api.meta import Key
from manta.api.resources import EVENTS, PODS, Resource
from manta.localplane.builtin.namespace.snapshot import FINALIZER, NamespaceSnapshot
from manta.reconcile.actions import Call
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.plan import NOTHING, Plan, Wait, do

DELETE_ALL = "delete all of a kind"
FINALIZE = "finalize"


class Cause(ActionCause):
    EMPTY = ONLY_FAILURES, "the namespace is being deleted"
    FINALIZE = ONLY_FAILURES, "nothing is left in the namespace"


def plan(snapshot: NamespaceSnapshot) -> Plan:
    namespace = snapshot.namespace
    if namespace.metadata.deletion_timestamp is None:
        return NOTHING
    if FINALIZER not in (namespace.spec.finalizers or ()):
        return NOTHING
    if not snapshot.remaining:
        # Events are not watched. They are deleted last, because they describe the rest.
        events = _delete_all(namespace.name, EVENTS)
        return do(events).then(do(Call(FINALIZE, namespace.metadata.key, Cause.FINALIZE)))
    turn = [PODS] if PODS in snapshot.remaining else [*snapshot.remaining]
    calls = [
        _delete_all(namespace.name, one) for one in turn if snapshot.remaining[one].undeleted > 0
    ]
    what = ", ".join(one.group_resource for one in turn)
    return do(*calls, wait=Wait(f"until {what} are gone from namespace {namespace.name}"))


def _delete_all(namespace: str, resource: Resource) -> Call:
    return Call(
        DELETE_ALL,
        Key(namespace, resource.group_resource),
        Cause.EMPTY,
        arguments={"resource": resource},
    )
