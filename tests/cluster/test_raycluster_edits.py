"""Edits of a live RayCluster: what is added reaches its objects, and what is taken away leaves them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.cluster import ClusterConditionType
from manta.api.resources import INGRESSES, PODS, SERVICES, Resource
from support.faults import status
from support.raycluster import NAMESPACE, group, template
from support.rayoperator import Operated, condition, operated
from support.virtual import virtually

KEY = Key(NAMESPACE, "demo")


async def annotations_of(op: Operated, resource: Resource, name: str) -> dict[str, str]:
    found = await op.client.get(resource, Key(NAMESPACE, name))
    return dict(found["metadata"].get("annotations", {}))


@virtually
async def test_r4_a_head_service_annotation_that_is_taken_back_leaves_the_service() -> None:
    async with operated() as op:
        await op.create(headServiceAnnotations={"a": "1", "b": "2"})
        await op.until_ready()
        name = "demo-head-svc"
        foreign = {"metadata": {"annotations": {"foreign": "yes"}}}
        await op.client.patch(SERVICES, Key(NAMESPACE, name), foreign)
        await op.patch({"spec": {"headServiceAnnotations": {"b": None, "c": "3"}}})
        await asyncio.sleep(5)
        found = await annotations_of(op, SERVICES, name)
        assert {key: found.get(key) for key in "abc"} == {"a": "1", "b": None, "c": "3"}
        await op.patch({"spec": {"headServiceAnnotations": None}})
        await asyncio.sleep(5)
        assert await annotations_of(op, SERVICES, name) == {"foreign": "yes"}
        before = op.writes("/services")
        await asyncio.sleep(900)
        assert op.writes("/services") == before


@virtually
async def test_r4_an_annotation_that_is_taken_back_leaves_the_ingress() -> None:
    async with operated() as op:
        await op.create(annotations={"a": "1", "b": "2"}, head={"enableIngress": True})
        await op.until_ready()
        await op.patch({"metadata": {"annotations": {"b": None}}})
        await asyncio.sleep(5)
        found = await annotations_of(op, INGRESSES, "demo-head-ingress")
        assert found["a"] == "1"
        assert "b" not in found


@virtually
async def test_a_head_that_is_not_to_be_restarted_is_not() -> None:
    async with operated() as op:
        await op.create(annotations={"ray.io/disable-provisioned-head-restart": "true"})
        await op.until_ready()
        await op.client.delete(PODS, await op.head(), grace_seconds=0)
        await asyncio.sleep(600)
        assert await op.pods(node="head") == []
        assert op.pod_creates() == 2
        assert (await op.read()).status.state == "ready"
        await op.patch(
            {"metadata": {"annotations": {"ray.io/disable-provisioned-head-restart": None}}}
        )
        await op.until_pods(1, node="head")


@pytest.mark.parametrize(
    "message",
    [
        'pods "demo-head" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4',
        'admission webhook "policy.example.com" denied the request: images must be signed',
    ],
)
@virtually
async def test_who_refuses_a_pod_is_quoted_in_the_conditions(message: str) -> None:
    async with operated() as op:
        refusal = status(403, "Forbidden", message)
        op.faults.answer(_creates_pods, refusal, times=None)
        await op.create()
        found = await op.until(lambda one: condition(one, ClusterConditionType.BLOCKED), seconds=10)
        blocked, failure = (
            condition(found, ClusterConditionType.BLOCKED),
            condition(found, "ReplicaFailure"),
        )
        assert blocked is not None
        assert failure is not None
        assert message in blocked.message
        assert message in failure.message
        assert "demo-head" in blocked.message


def _creates_pods(request: Any) -> bool:
    return bool(request.method == "POST" and request.path.endswith("/pods"))


@virtually
async def test_workers_that_fail_at_once_leave_their_siblings_alone() -> None:
    async with operated() as op:
        op.cluster.nodes.script("ray.io/group=bad", "exit=1@1")
        bad = group("bad", replicas=2, template=template(restartPolicy="Never"))
        await op.create(groups=[group("good", replicas=2), bad])
        await asyncio.sleep(600)
        good = await op.cluster.pods("ray.io/group=good", NAMESPACE)
        assert len(good) == 2
        assert op.pod_creates() <= 3 + 2 * 10
        blocked = condition(await op.read(), ClusterConditionType.BLOCKED)
        assert blocked is not None
        assert "exited with code 1" in blocked.message
