"""Which EndpointSlices a Service gets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.meta import Key, Object, ObjectMeta
from manta.api.resources import ENDPOINT_SLICES, ENDPOINTS
from manta.localplane.builtin.endpoints.plan import plan
from manta.localplane.builtin.endpoints.snapshot import Legacy, ServiceSnapshot
from manta.localplane.builtin.views import EndpointSlice, Pod, Service
from manta.reconcile.actions import Create, Delete, Patch
from support.plane_objects import NOW, a_node, a_pod, ago

PORT = [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]


def a_service(**spec: Any) -> Service:
    fields = {"clusterIP": "10.0.0.1", "selector": {"app": "x"}, "ports": PORT, **spec}
    meta = {"name": "es", "namespace": "default", "uid": "uid-es", "labels": {"team": "a"}}
    return msgspec.convert({"metadata": meta, "spec": fields}, Service)


def a_backend(name: str, ip: str, *, ready: bool = True, **more: Any) -> Pod:
    ports = [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]
    more = {"node": "n1", "containers": [{"name": "c", "ports": ports}], **more}
    return a_pod(name, ready=ready, phase="Running", **_with_ip(ip, ready, more))


def _with_ip(ip: str, ready: bool, more: dict[str, Any]) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready)}
    status = {"podIP": ip, "conditions": [condition], **more.pop("status", {})}
    return {**more, "status": status}


def a_snapshot(
    service: Service | None, *pods: Pod, slices: tuple[EndpointSlice, ...] = (), **more: Any
) -> ServiceSnapshot:
    held = {"legacy": a_legacy(), **more}
    return ServiceSnapshot(
        Key("default", "es"), service, pods, {"n1": a_node("n1")}, slices, now=NOW, **held
    )


def a_legacy(*subsets: Any) -> Legacy:
    labels = {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    meta = ObjectMeta(name="es", namespace="default", uid="uid-e", labels=labels)  # type: ignore[arg-type]
    return Legacy(Object(metadata=meta), subsets)


def slice_actions(snapshot: ServiceSnapshot) -> list[Any]:
    return [action for action in plan(snapshot).actions if action.resource == ENDPOINT_SLICES]


def as_stored(create: Create, name: str = "es-abc") -> EndpointSlice:
    """The slice that a Create leaves behind."""
    meta = {**create.manifest["metadata"], "name": name, "uid": f"uid-{name}"}
    return msgspec.convert({**create.manifest, "metadata": meta}, EndpointSlice)


def conditions_of(snapshot: ServiceSnapshot) -> dict[str, bool]:
    [create] = slice_actions(snapshot)
    [endpoint] = create.manifest["endpoints"]
    return endpoint["conditions"]


def test_a_service_without_pods_gets_one_empty_slice_as_recorded() -> None:
    [create] = slice_actions(a_snapshot(a_service(clusterIP="None")))
    assert {**create.manifest} == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": "es-",
            "namespace": "default",
            "labels": {
                "team": "a",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": "es",
                "service.kubernetes.io/headless": "",
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": ago(0)},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": "es",
                    "uid": "uid-es",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": "IPv4",
        "endpoints": None,
        "ports": None,
    }


def test_a_ready_pod_becomes_an_endpoint_with_its_port_number() -> None:
    [create] = slice_actions(a_snapshot(a_service(), a_backend("p", "10.1.0.1")))
    assert create.manifest["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert create.manifest["endpoints"] == [
        {
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": "n1",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "uid-p"},
        }
    ]


@pytest.mark.parametrize(
    "pod",
    [
        a_backend("no-address", ""),
        a_backend("unknown-node", "10.1.0.1", node="elsewhere"),
        a_backend("ended", "10.1.0.1", status={"phase": "Succeeded"}),
    ],
    ids=lambda pod: pod.metadata.name,
)
def test_a_pod_that_cannot_be_reached_is_no_endpoint(pod: Pod) -> None:
    [create] = slice_actions(a_snapshot(a_service(), pod))
    assert create.manifest["endpoints"] is None


def test_conditions_tell_not_ready_from_leaving() -> None:
    unready = a_backend("p", "10.1.0.1", ready=False)
    leaving = a_backend("p", "10.1.0.1", meta={"deletionTimestamp": ago(0)})
    service, eager = a_service(), a_service(publishNotReadyAddresses=True)
    assert conditions_of(a_snapshot(service, unready)) == {
        "ready": False,
        "serving": False,
        "terminating": False,
    }
    assert conditions_of(a_snapshot(service, leaving)) == {
        "ready": False,
        "serving": True,
        "terminating": True,
    }
    assert conditions_of(a_snapshot(eager, unready))["ready"] is True


def test_a_second_look_changes_nothing() -> None:
    pods = [a_backend(f"p{n}", f"10.1.0.{n}") for n in range(3)]
    [create] = slice_actions(a_snapshot(a_service(), *pods))
    assert slice_actions(a_snapshot(a_service(), *pods, slices=(as_stored(create),))) == []


def test_a_new_pod_changes_only_the_slice_with_room() -> None:
    many = [a_backend(f"p{n:03}", f"10.1.1.{n}") for n in range(150)]
    first, second = slice_actions(a_snapshot(a_service(), *many))
    assert [len(one.manifest["endpoints"]) for one in (first, second)] == [100, 50]
    slices = (as_stored(first, "es-a"), as_stored(second, "es-b"))
    [patch] = slice_actions(
        a_snapshot(a_service(), *many, a_backend("new", "10.1.2.1"), slices=slices)
    )
    assert isinstance(patch, Patch)
    assert (patch.key.name, len(patch.patch["endpoints"])) == ("es-b", 51)


def test_an_emptied_slice_goes_and_the_last_one_stays_empty() -> None:
    many = [a_backend(f"p{n:03}", f"10.1.1.{n}") for n in range(101)]
    slices = tuple(
        as_stored(one, f"es-{n}")
        for n, one in enumerate(slice_actions(a_snapshot(a_service(), *many)))
    )
    [delete] = slice_actions(a_snapshot(a_service(), *many[:100], slices=slices))
    assert isinstance(delete, Delete)
    assert delete.key.name == "es-1"
    emptied, other = slice_actions(a_snapshot(a_service(), slices=slices))
    assert emptied.patch["endpoints"] is None
    assert isinstance(other, Delete)


def test_the_empty_slice_is_used_when_the_first_pod_arrives() -> None:
    [create] = slice_actions(a_snapshot(a_service()))
    held = (as_stored(create),)
    [patch] = slice_actions(a_snapshot(a_service(), a_backend("p", "10.1.0.1"), slices=held))
    assert isinstance(patch, Patch)
    assert patch.patch["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]


def test_pods_that_number_a_named_port_differently_are_sliced_apart() -> None:
    other = [{"name": "c", "ports": [{"name": "web", "containerPort": 9, "protocol": "TCP"}]}]
    pods = [a_backend("a", "10.1.0.1"), a_backend("b", "10.1.0.2", containers=other)]
    ports = [
        one.manifest["ports"][0]["port"] for one in slice_actions(a_snapshot(a_service(), *pods))
    ]
    assert ports == [8080, 9]


@pytest.mark.parametrize("spec", [{"selector": None}, {"type": "ExternalName"}])
def test_services_that_are_filled_by_hand_are_left_alone(spec: dict[str, Any]) -> None:
    assert plan(a_snapshot(a_service(**spec))).actions == ()


def test_the_old_endpoints_object_follows() -> None:
    pods = [a_backend("a", "10.1.0.1"), a_backend("b", "10.1.0.2", ready=False)]
    snapshot = a_snapshot(a_service(), *pods, legacy=None)
    [create] = [action for action in plan(snapshot).actions if action.resource == ENDPOINTS]
    assert isinstance(create, Create)
    [subset] = create.manifest["subsets"]
    assert [one["ip"] for one in subset["addresses"]] == ["10.1.0.1"]
    assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.1.0.2"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]


def test_the_old_endpoints_object_goes_with_the_service() -> None:
    [delete] = plan(a_snapshot(None)).actions
    assert isinstance(delete, Delete)
    assert delete.resource == ENDPOINTS
