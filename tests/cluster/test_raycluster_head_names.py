"""Heads and their successors on a server: one at a time, whatever is lost on the way (ADR 9, R24)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import NODES, PODS
from manta.kube.errors import ApiError
from support.fakenodes import fake_cluster
from support.raycluster import NAMESPACE, ray_cluster
from support.raycrds import ray_crds
from support.rayoperator import Operated, operated, start_operator
from support.virtual import virtually

TAINT = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
HEADS = "ray.io/cluster=demo,ray.io/node-type=head"


def creates_pod(request: Any) -> bool:
    return bool(request.method == "POST" and request.path.endswith("/pods"))


async def heads(op: Operated) -> list[str]:
    return [one["metadata"]["name"] for one in await op.pods(node="head")]


@virtually
async def test_recreate_gives_the_head_another_name_on_a_server() -> None:
    """E3."""
    async with operated() as op:
        strategy: dict[str, Any] = {"upgradeStrategy": {"type": "Recreate"}}
        await op.create(groups=[], **strategy)
        await op.until_ready()
        [before] = await heads(op)
        await op.patch({"spec": {"rayVersion": "2.61.0"}})

        async def is_replaced() -> bool:
            return before not in await heads(op) and len(await heads(op)) == 1

        await op.cluster.until(is_replaced)
        found = await op.until(lambda one: one.status.head.pod_name not in ("", before))
        assert [found.status.head.pod_name] == await heads(op)


@virtually
async def test_a_head_after_a_suspension_has_another_name_than_all_before_it_on_a_server() -> None:
    """E3."""
    async with operated() as op:
        await op.create(groups=[])
        await op.until_ready()
        known = await heads(op)
        for _ in range(2):
            await op.patch({"spec": {"suspend": True}})
            await op.until(lambda one: one.status.state == "suspended")
            await op.patch({"spec": {"suspend": False}})
            await op.until_ready()
            known += await heads(op)
        assert len(set(known)) == 3


@pytest.mark.parametrize("grace", [0, None], ids=["at-once", "gracefully"])
@virtually
async def test_a_head_that_is_lost_before_the_status_names_it_has_a_successor_of_another_name(
    grace: int | None,
) -> None:
    """E3. The status of a starting cluster is held back for ten seconds."""
    async with operated() as op:
        op.cluster.nodes.script("ray.io/node-type=head", "ready=never stop=1")
        await op.create(groups=[])
        await asyncio.sleep(3)
        [first] = await heads(op)
        assert (await op.read()).status.head.pod_name == ""
        await op.client.delete(PODS, Key(NAMESPACE, first), grace_seconds=grace)

        async def is_replaced() -> bool:
            return len(await heads(op)) == 1 and first not in await heads(op)

        await op.cluster.until(is_replaced)


@virtually
async def test_two_long_names_that_are_cut_alike_both_get_a_head() -> None:
    """R3."""
    async with operated() as op:
        for end in ("a", "b"):
            name = f"{'c' * 50}-{end}"
            await op.create(name, groups=[])
            await op.until_ready(name)
            assert len(await op.pods(name, "head")) == 1


@pytest.mark.parametrize("replaced", [False, True], ids=["first-head", "second-head"])
@virtually
async def test_an_operator_that_dies_with_the_reply_makes_no_second_head(replaced: bool) -> None:
    """The creation is done, nobody knows of it, and the next operator does not see it yet."""
    async with fake_cluster(3, crds=ray_crds()) as cluster:
        async with start_operator(cluster) as first:
            await cluster.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster(groups=[]))
            if replaced:
                await first.until_ready()
            first.faults.delay_watch(PODS, 600)
            first.faults.break_watches()
            await asyncio.sleep(2)
            first.faults.fail_after(creates_pod, times=None)
            if replaced:
                await first.client.delete(PODS, await first.head(), grace_seconds=0)
            await asyncio.sleep(5)
        async with start_operator(cluster, seed=8) as second:
            await second.until_pods(1, node="head")
            await asyncio.sleep(120)
            [head] = await heads(second)
            assert (await second.read()).status.head.pod_name == head
            made = first.faults.accepted_writes("/pods") + second.faults.accepted_writes("/pods")
            assert len([one for one in made if one.method == "POST"]) == 1 + replaced


@virtually
async def test_a_creation_that_arrives_late_is_not_followed_by_another() -> None:
    """The first operator's request is on its way when the second one acts: both ask for one name."""
    async with fake_cluster(3, crds=ray_crds()) as cluster:
        async with start_operator(cluster) as first:
            await cluster.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster(groups=[]))
            await first.until_ready()
            first.faults.fail_before(creates_pod, times=None)
            await first.client.delete(PODS, await first.head(), grace_seconds=0)
            await asyncio.sleep(5)
            sent = next(one for one in reversed(first.faults.log) if creates_pod(one))
        async with start_operator(cluster, seed=8) as second:
            await second.until_pods(1, node="head")
            with pytest.raises(ApiError, match="already exists"):
                await cluster.client.create(PODS, NAMESPACE, _body(sent))
            assert len(await cluster.pods(HEADS, NAMESPACE)) == 1


def _body(request: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request.body)
    return body


@virtually
async def test_a_head_on_a_node_that_is_taken_out_of_service_is_replaced() -> None:
    """R24."""
    async with operated() as op:
        op.cluster.nodes.script("ray.io/node-type=head", "stop=never")
        await op.create(groups=[])
        await op.until_ready()
        [pod] = await op.pods(node="head")
        await op.client.delete(PODS, Key(NAMESPACE, pod["metadata"]["name"]))
        await asyncio.sleep(600)
        assert len(await op.pods(node="head")) == 1, "it may still run"
        node = Key("", pod["spec"]["nodeName"])
        await op.client.patch(NODES, node, {"spec": {"taints": [TAINT]}})

        async def is_replaced() -> bool:
            found = await op.pods(node="head")
            assert len(found) <= 1
            return bool(found) and found[0]["metadata"]["uid"] != pod["metadata"]["uid"]

        await op.cluster.until(is_replaced, seconds=60)
        [head] = await heads(op)
        assert head != pod["metadata"]["name"]
        assert any("out-of-service" in one for one in await op.cluster.events("DeletedPod"))
        await op.until_ready()


@virtually
async def test_nodes_are_read_only_for_pods_that_do_not_go_away() -> None:
    """R24: no list, no watch, and nothing while all is well."""
    async with operated() as op:
        op.cluster.nodes.script("ray.io/node-type=worker", "stop=never")
        await op.create()
        await op.until_ready()
        asked = [one for one in op.faults.log if "/nodes" in one.path]
        assert asked == []
        await op.scale(0)
        await asyncio.sleep(300)
        asked = [one for one in op.faults.log if "/nodes" in one.path]
        assert {one.method for one in asked} == {"GET"}
        assert len(asked) <= 30
        assert all(one.path.count("/") == 4 for one in asked), "always one, by its name"
