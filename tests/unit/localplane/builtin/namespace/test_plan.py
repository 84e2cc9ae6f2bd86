"""Emptying a namespace."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.resources import CONFIG_MAPS, PODS, Resource
from manta.localplane.builtin.namespace.plan import DELETE_ALL, FINALIZE, plan
from manta.localplane.builtin.namespace.snapshot import NamespaceSnapshot, Remainder
from manta.localplane.builtin.namespace.status import next_status
from manta.localplane.builtin.views import Namespace
from manta.reconcile.actions import Call
from manta.reconcile.outcome import UNTRIED
from support.plane_objects import NOW


def a_namespace(
    *, leaving: bool = True, finalizers: tuple[str, ...] = ("kubernetes",)
) -> Namespace:
    stamp = {"deletionTimestamp": "2026-11-15T12:00:00Z"} if leaving else {}
    body = {"metadata": {"name": "x", **stamp}, "spec": {"finalizers": finalizers}}
    return msgspec.convert(body, Namespace)


def a_snapshot(namespace: Namespace, remaining: dict[Resource, Remainder] | None = None) -> Any:
    return NamespaceSnapshot(namespace, remaining or {}, NOW)


def calls(snapshot: NamespaceSnapshot) -> list[tuple[str, str]]:
    return [(one.verb, one.key.name) for one in plan(snapshot).actions if isinstance(one, Call)]


def test_a_living_namespace_is_left_alone() -> None:
    assert calls(a_snapshot(a_namespace(leaving=False))) == []


def test_pods_go_first_and_alone() -> None:
    left = {CONFIG_MAPS: Remainder(2, 2), PODS: Remainder(1, 1)}
    assert calls(a_snapshot(a_namespace(), left)) == [(DELETE_ALL, "pods")]


def test_then_the_rest_goes_but_nothing_is_asked_twice() -> None:
    services = Resource("", "v1", "services", "Service")
    left = {CONFIG_MAPS: Remainder(2, 2), services: Remainder(1, 0)}
    assert calls(a_snapshot(a_namespace(), left)) == [(DELETE_ALL, "configmaps")]


def test_an_empty_namespace_loses_its_events_and_is_finalized() -> None:
    assert calls(a_snapshot(a_namespace())) == [
        (DELETE_ALL, "events.events.k8s.io"),
        (FINALIZE, "x"),
    ]


def test_a_namespace_without_our_finalizer_is_somebody_elses() -> None:
    assert calls(a_snapshot(a_namespace(finalizers=("other",)))) == []


def test_conditions_say_what_holds_it_up() -> None:
    left = {CONFIG_MAPS: Remainder(1, 0, {"example.com/hold": 1})}
    status = next_status(a_snapshot(a_namespace(), left), UNTRIED)
    said = {one.type: one.message for one in status.conditions or ()}
    assert said["NamespaceContentRemaining"] == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert said["NamespaceFinalizersRemaining"] == (
        "Some content in the namespace has finalizers remaining: "
        "example.com/hold in 1 resource instances"
    )
