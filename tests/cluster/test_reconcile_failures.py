"""Whatever makes a reconcile raise is visible on its object, and stops no other (R7, Silence)."""

from __future__ import annotations

import asyncio
import copy
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import DEPLOYMENTS, PODS, SERVICES
from manta.kube.client import Client
from manta.kube.transport import Request, Response
from manta.localplane.builtin.deployment.controller import DeploymentController
from manta.localplane.controllers import ControllerOptions, built_in_controllers
from support.faults import FaultTransport, Match, status, touches
from support.raycluster import NAMESPACE, ray_cluster, template
from support.raycrds import ray_crds
from support.reconcile_failures import BY_KIND, all_controllers, an_object, operated
from support.virtual import faulty, running, virtual_plane, virtually

SECRET = "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl"
LAZY = ("RayJob", "RayService")
"""Kinds whose spec is decoded when it is needed."""
PHASES = {"plan": "plan", "next_status": "status"}
REFUSALS = {
    "RayCluster": ("Blocked", "Forbidden"),
    "RayJob": ("Ready", "Forbidden"),
    "RayService": ("Ready", "CannotStart"),
}
"""Type and reason of the condition that shows an action that was refused."""
INVALID = {
    "RayCluster": ("Blocked", "InvalidRayClusterSpec"),
    "RayJob": ("Ready", "ValidationFailed"),
    "RayService": ("Ready", "ValidationFailed"),
    "RayCronJob": ("Blocked", "InvalidRayCronJobSpec"),
}
"""The same for an invalid spec."""


def _name_in(snapshot: Any) -> str:
    for field in ("job", "service", "cron", "cluster"):
        if hasattr(snapshot, field):
            return str(getattr(snapshot, field).metadata.name)
    raise AssertionError(snapshot)


def _break(monkeypatch: pytest.MonkeyPatch, module: Any, function: str) -> None:
    """Let one function of a controller raise, for the object `bad` only."""
    real = getattr(module, function)

    def raises(snapshot: Any, *rest: Any) -> Any:
        if _name_in(snapshot).startswith("bad"):
            raise ZeroDivisionError(f"bearer {SECRET}\nin two lines")
        return real(snapshot, *rest)

    monkeypatch.setattr(module, function, raises)


@pytest.mark.parametrize("function", PHASES)
@pytest.mark.parametrize("kind", BY_KIND)
@virtually
async def test_a_phase_that_raises_becomes_a_condition_an_event_and_a_metric(
    kind: str, function: str
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with all_controllers() as all_:
            _break(monkeypatch, BY_KIND[kind][1], function)
            await all_.make(kind, "bad")
            await all_.make(kind, "good")
            await asyncio.sleep(120)
            condition = await all_.condition(kind, "bad")
            assert condition is not None
            assert (condition["status"], condition["reason"]) == ("True", "ReconcileFailed")
            assert condition["message"].startswith(f"{PHASES[function]} failed: ZeroDivisionError")
            assert SECRET not in condition["message"]
            assert "\n" not in condition["message"]
            [event] = await all_.events("bad")
            assert event["type"] == "Warning"
            assert event["series"]["count"] > 2
            assert all_.failures(kind, PHASES[function]) > 2
            assert await all_.condition(kind, "good") is None
            if kind != "RayCronJob":  # which has nothing to say before its first tick
                assert (await all_.get(kind, "good"))["status"]
            monkeypatch.undo()
            await asyncio.sleep(400)
            assert await all_.condition(kind, "bad") is None


@pytest.mark.parametrize("kind", BY_KIND)
@virtually
async def test_an_invalid_spec_is_an_event_and_a_condition_until_an_edit(kind: str) -> None:
    async with all_controllers() as all_:
        body = an_object(kind, "odd")
        valid, spec = copy.deepcopy(body["spec"]), body["spec"]
        clusters = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
        if kind == "RayCronJob":
            spec["schedule"] = "every day"
        else:
            cluster = spec[clusters[kind]] if kind in clusters else spec
            cluster["workerGroupSpecs"][0] |= {"minReplicas": 3, "maxReplicas": 1}
        await all_.client.create(BY_KIND[kind][0], NAMESPACE, body)
        await asyncio.sleep(5)
        type_, reason = INVALID[kind]
        [told] = await all_.conditions(kind, "odd", type_)
        field = "schedule" if kind == "RayCronJob" else "minReplicas"
        assert told["reason"] == reason
        assert field in told["message"]
        [event] = await all_.events("odd", f"Invalid{kind}Spec")
        assert field in event["note"]
        await all_.client.patch(BY_KIND[kind][0], Key(NAMESPACE, "odd"), {"spec": valid})
        await asyncio.sleep(5)
        assert reason not in {one["reason"] for one in await all_.conditions(kind, "odd", type_)}


@pytest.mark.parametrize("kind", REFUSALS)
@virtually
async def test_a_finalizer_that_is_refused_is_a_condition_and_an_event(kind: str) -> None:
    resource, _, _ = BY_KIND[kind]

    def is_patch(request: Request) -> bool:
        return request.method == "PATCH" and request.path.endswith(f"/{resource.plural}/refused")

    async with virtual_plane(crds=ray_crds()) as plane:
        faults = faulty(plane)
        faults.answer(is_patch, status(403, "Forbidden", "denied by a webhook"), times=20)
        async with operated(plane, Client(faults)) as all_:
            body = an_object(kind, "refused")
            body["metadata"]["annotations"] = {"ray.io/ft-enabled": "true"}
            await plane.client.create(resource, NAMESPACE, body)
            await asyncio.sleep(20)
            conditions = (await all_.get(kind, "refused"))["status"]["conditions"]
            why = f"cannot patch {kind} default/refused: denied by a webhook (403 Forbidden)"
            type_, reason = REFUSALS[kind]
            [condition] = [one for one in conditions if one["type"] == type_]
            assert (condition["reason"], condition["message"]) == (reason, why)
            [event] = await all_.events("refused", f"FailedToUpdate{kind}")
            assert "denied by a webhook" in event["note"]
            await asyncio.sleep(4000)
            found = await all_.get(kind, "refused")
            assert found["metadata"]["finalizers"]
            if kind != "RayCluster":  # there the message stays until the Pods are ready
                assert "denied" not in str(found["status"]["conditions"])


def another_text_each_time(faults: FaultTransport, match: Match) -> list[float]:
    """Refuse as a server does whose webhook hangs: with the port of each connection. Returns when it was asked.

    After a thousand the text stays the same, so that virtual time goes on.
    """
    asked: list[float] = []

    def refuse(_request: Request) -> Response:
        asked.append(asyncio.get_running_loop().time())
        why = f"failed calling webhook: read tcp 10.0.0.1:{min(len(asked), 1000)}: i/o timeout"
        return status(500, "InternalError", why)

    faults.answer_by(match, refuse)
    return asked


def crds_without_conditions(kind: str) -> list[dict[str, Any]]:
    """KubeRay's CRDs have no conditions of RayJobs and RayCronJobs: the API server drops them."""
    found = copy.deepcopy(ray_crds())
    [crd] = [one for one in found if one["spec"]["names"]["kind"] == kind]
    for version in crd["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        status["properties"].pop("conditions", None)
    return found


CHILDREN = {
    "RayCluster": (SERVICES, "Blocked"),
    "RayJob": (RAY_CLUSTERS, "Ready"),
    "RayService": (RAY_CLUSTERS, "Ready"),
    "RayCronJob": (RAY_JOBS, "Blocked"),
}
"""What each kind creates first, and the condition that shows a refusal."""


@pytest.mark.parametrize("kind", CHILDREN)
@virtually
async def test_an_error_with_another_text_each_time_is_retried_with_a_backoff(kind: str) -> None:
    """Each text was a write of the status, and its watch event the next attempt."""
    async with virtual_plane(crds=ray_crds()) as plane:
        faults = faulty(plane)
        resource, type_ = CHILDREN[kind]
        asked = another_text_each_time(faults, touches(resource, "POST"))
        async with operated(plane, Client(faults)) as op:
            await op.make(kind, "odd")
            await asyncio.sleep(600)
            assert 10 < len(asked) < 60
            assert 1 <= len(faults.accepted_writes("/status")) < 20
            [shown] = await op.conditions(kind, "odd", type_)
            assert "failed calling webhook" in shown["message"]


@pytest.mark.parametrize("kind", ["RayJob", "RayCronJob"])
@virtually
async def test_so_is_it_with_a_crd_that_drops_the_conditions(kind: str) -> None:
    async with virtual_plane(crds=crds_without_conditions(kind)) as plane:
        faults = faulty(plane)
        asked = another_text_each_time(faults, touches(CHILDREN[kind][0], "POST"))
        async with operated(plane, Client(faults)) as op:
            await op.make(kind, "odd")
            await asyncio.sleep(600)
            assert 10 < len(asked) < 60
            assert 1 <= len(faults.accepted_writes("/status")) < 20


@virtually
async def test_a_condition_that_an_earlier_operator_left_goes_with_the_first_success() -> None:
    async with virtual_plane(crds=ray_crds()) as plane:
        with pytest.MonkeyPatch.context() as monkeypatch:
            _break(monkeypatch, BY_KIND["RayCluster"][1], "plan")
            async with operated(plane) as first:
                await first.make("RayCluster", "bad")
                await asyncio.sleep(5)
                assert await first.condition("RayCluster", "bad")
        async with operated(plane) as second:
            await asyncio.sleep(5)
            assert await second.condition("RayCluster", "bad") is None


@virtually
async def test_a_message_that_changes_every_time_is_not_written_every_time() -> None:
    async with all_controllers() as all_:
        with pytest.MonkeyPatch.context() as monkeypatch:
            tries: list[int] = []

            def raises(_: Any) -> Any:
                tries.append(len(tries))
                raise ValueError(f"try {len(tries)}")

            monkeypatch.setattr(BY_KIND["RayCluster"][1], "plan", raises)
            await all_.make("RayCluster", "bad")
            await asyncio.sleep(50)
            condition = await all_.condition("RayCluster", "bad")
            assert condition is not None
            assert len(tries) > 5
            assert condition["message"].startswith("plan failed: ValueError: try 1")


@virtually
async def test_an_object_that_cannot_be_decoded_gets_the_condition_too() -> None:
    """Stored before its CRD had a schema, say."""
    crds = [dict(one) for one in ray_crds()]
    for crd in crds:
        crd["spec"] = {**crd["spec"], "versions": [_open(one) for one in crd["spec"]["versions"]]}
    async with virtual_plane(crds=crds) as plane, operated(plane) as all_:
        for kind in BY_KIND:
            odd = an_object(kind, "odd")
            odd["spec"] = "not an object"
            await plane.client.create(BY_KIND[kind][0], NAMESPACE, odd)
            await all_.make(kind, "good")
        await asyncio.sleep(60)
        for kind in BY_KIND:
            condition = await all_.condition(kind, "odd")
            assert condition is not None, kind
            phase = "observe" if kind in LAZY else "decode"
            assert condition["message"].startswith(f"{phase} failed: ")
            assert "Expected `object`, got `str`" in condition["message"]
            assert all_.failures(kind, phase)
            assert await all_.events("odd")
            assert await all_.condition(kind, "good") is None
            spec = an_object(kind, "odd")["spec"]
            key = Key(NAMESPACE, "odd")
            await plane.client.patch(BY_KIND[kind][0], key, {"spec": spec})
        await asyncio.sleep(400)
        for kind in BY_KIND:
            assert await all_.condition(kind, "odd") is None, kind


def _open(version: dict[str, Any]) -> dict[str, Any]:
    """A version of a CRD that accepts anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {**version, "schema": {"openAPIV3Schema": schema}}


@virtually
async def test_a_function_that_finds_no_key_for_a_pod_does_not_end_the_watch() -> None:
    async with virtual_plane(crds=ray_crds()) as plane:
        with pytest.MonkeyPatch.context() as monkeypatch:
            real = BY_KIND["RayCluster"][1].keys_of_pod

            def raises(old: Any, new: Any) -> Any:
                if "head" not in (new or old).metadata.name:
                    raise KeyError("a label")
                return real(old, new)

            monkeypatch.setattr(BY_KIND["RayCluster"][1], "keys_of_pod", raises)
            async with operated(plane) as all_:
                await all_.make("RayCluster", "good")
                await asyncio.sleep(5)
                assert all_.failures("RayCluster", "watch") > 0
                await all_.make("RayCluster", "other")
                await asyncio.sleep(5)
                assert (await all_.get("RayCluster", "other"))["status"]


@virtually
async def test_a_dashboard_agent_port_that_is_no_number_gives_the_probes_the_default() -> None:
    """R7: no Pod, no status, no word, for ever."""
    async with all_controllers() as all_:
        params = {"rayStartParams": {"dashboard-agent-listen-port": "$MY_PORT"}}
        await all_.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster("ports", head=params))
        await asyncio.sleep(5)
        pods = (await all_.client.list(PODS, NAMESPACE)).items
        [head] = [one for one in pods if one["metadata"]["labels"]["ray.io/node-type"] == "head"]
        probe = head["spec"]["containers"][0]["livenessProbe"]
        assert probe["httpGet"]["port"] == 52365


@virtually
async def test_a_built_in_controller_that_raises_is_counted_in_the_metrics_of_the_plane() -> None:
    """Silence."""
    async with virtual_plane() as plane:
        options = ControllerOptions(random=Random(1), registry=plane.app.telemetry.registry)
        with pytest.MonkeyPatch.context() as monkeypatch:

            def raises(*_: Any) -> Any:
                raise ZeroDivisionError

            monkeypatch.setattr(DeploymentController, "plan", raises)
            manager = built_in_controllers(plane.client, plane.clock, options)
            async with running(manager.run()):
                pod = {"metadata": {"labels": {"a": "b"}}, "spec": template()["spec"]}
                spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
                body = {"metadata": {"name": "web"}, "spec": spec}
                await plane.client.create(DEPLOYMENTS, NAMESPACE, body)
                await asyncio.sleep(5)
        text = plane.app.telemetry.text()
        assert (
            'manta_reconcile_failures_total{controller="deployment-controller",phase="plan"}'
            in text
        )
