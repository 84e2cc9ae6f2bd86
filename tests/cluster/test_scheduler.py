"""The scheduler and the fake nodes on the embedded server."""

from __future__ import annotations

import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.resources import NODES, PODS, PRIORITY_CLASSES
from support.fakenodes import FakeCluster, a_pod_manifest, fake_cluster
from support.virtual import virtually


def asking(cpu: str) -> dict[str, Any]:
    return {"container": {"resources": {"requests": {"cpu": cpu}}}}


async def put(cluster: FakeCluster, name: str, script: str = "", **spec: Any) -> None:
    await cluster.client.create(PODS, "default", a_pod_manifest(name, script, **spec))


async def scheduled(cluster: FakeCluster, name: str) -> dict[str, Any]:
    pod = await cluster.get(PODS, name)
    assert pod is not None
    said = pod["status"].get("conditions") or ()
    return next(one for one in said if one["type"] == "PodScheduled")


@virtually
async def test_pods_spread_over_the_nodes() -> None:
    async with fake_cluster(nodes=3, cpu="4") as cluster:
        for number in range(6):
            await put(cluster, f"p{number}", **asking("1"))
        await asyncio.sleep(2)
        nodes = [one["spec"]["nodeName"] for one in await cluster.pods()]
        assert sorted(nodes.count(name) for name in set(nodes)) == [2, 2, 2]


@virtually
async def test_a_pod_that_does_not_fit_says_why_and_is_placed_when_there_is_room() -> None:
    async with fake_cluster(nodes=2, cpu="2") as cluster:
        await put(cluster, "a", **asking("2"))
        await put(cluster, "b", **asking("2"))
        await put(cluster, "late", **asking("1"))
        await asyncio.sleep(2)
        said = await scheduled(cluster, "late")
        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        assert said["message"] == (
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: "
            "2 No preemption victims found for incoming pod."
        )
        assert await cluster.events("FailedScheduling") == [said["message"]]
        await cluster.client.delete(PODS, Key("default", "a"))
        pod = await cluster.until_phase("late", "Running")
        assert pod["spec"]["nodeName"]
        assert (await scheduled(cluster, "late"))["status"] == "True"


@virtually
async def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned() -> None:
    async with fake_cluster() as cluster:
        node = Key("", "fake-node-0")
        await cluster.client.patch(NODES, node, {"spec": {"unschedulable": True}})
        await put(cluster, "p")
        await asyncio.sleep(2)
        assert "1 node(s) were unschedulable" in (await scheduled(cluster, "p"))["message"]
        await cluster.client.patch(NODES, node, {"spec": {"unschedulable": None}})
        await cluster.until_phase("p", "Running")


@virtually
async def test_an_important_pod_takes_the_place_of_a_lesser_one() -> None:
    async with fake_cluster(cpu="2") as cluster:
        await put(cluster, "lesser", "stop=5", **asking("2"))
        await cluster.until_phase("lesser", "Running")
        vip = {"metadata": {"name": "vip"}, "value": 100}
        await cluster.client.create(PRIORITY_CLASSES, "", vip)
        important = {"priorityClassName": "vip", "priority": 100, **asking("2")}
        await put(cluster, "vip", **important)
        await asyncio.sleep(2)
        pod = await cluster.get(PODS, "vip")
        assert pod is not None
        assert pod["status"]["nominatedNodeName"] == "fake-node-0"
        await put(cluster, "thief", **asking("1"))
        await cluster.until_phase("vip", "Running")
        assert await cluster.get(PODS, "lesser") is None
        assert (await scheduled(cluster, "thief"))["status"] == "False"


@virtually
async def test_pods_of_another_scheduler_are_left_alone() -> None:
    async with fake_cluster() as cluster:
        await put(cluster, "p", schedulerName="volcano")
        await asyncio.sleep(5)
        pod = await cluster.get(PODS, "p")
        assert pod is not None
        assert not pod["spec"].get("nodeName")


@virtually
async def test_a_thousand_pods_find_their_nodes() -> None:
    async with fake_cluster(nodes=20, cpu="64") as cluster:
        for number in range(1000):
            await put(cluster, f"p{number}", **asking("1"))

        async def all_ready() -> bool:
            pods = await cluster.pods()
            return all(one["status"].get("podIP") for one in pods)

        await cluster.until(all_ready)
        pods = await cluster.pods()
        assert len({one["status"]["podIP"] for one in pods}) == 1000
        nodes = [one["spec"]["nodeName"] for one in pods]
        assert {nodes.count(name) for name in set(nodes)} == {50}


# ── fake nodes ───────────────────────────────────────────────────────────────────────────
@virtually
async def test_a_script_takes_a_pod_through_an_image_error_to_ready() -> None:
    async with fake_cluster() as cluster:
        await put(cluster, "p", "pull=error:30 ready=5")
        await asyncio.sleep(10)
        pod = await cluster.get(PODS, "p")
        assert pod is not None
        waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "ImagePullBackOff"
        await cluster.until(lambda: cluster.is_true(PODS, "p", "Ready"))


@virtually
async def test_a_crash_loop_counts_restarts() -> None:
    async with fake_cluster() as cluster:
        await put(cluster, "p", "exit=1@1 exit=1@1 run")

        async def settled() -> bool:
            pod = await cluster.get(PODS, "p")
            assert pod is not None
            [container] = pod["status"].get("containerStatuses") or [{}]
            return bool(container.get("restartCount") == 2 and container["ready"])

        await cluster.until(settled)


@virtually
async def test_tests_can_end_and_evict_pods() -> None:
    async with fake_cluster() as cluster:
        for name in ("oom", "evicted"):
            await put(cluster, name, restartPolicy="Never")
            await cluster.until_phase(name, "Running")
        cluster.nodes.oom_kill(Key("default", "oom"))
        pod = await cluster.until_phase("oom", "Failed")
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
        cluster.nodes.evict(Key("default", "evicted"))
        pod = await cluster.until_phase("evicted", "Failed")
        assert pod["status"]["reason"] == "Evicted"


@virtually
async def test_termination_takes_as_long_as_the_script_says() -> None:
    async with fake_cluster() as cluster:
        await put(cluster, "p", "stop=20")
        await cluster.until_phase("p", "Running")
        await cluster.client.delete(PODS, Key("default", "p"))
        await asyncio.sleep(15)
        assert await cluster.get(PODS, "p") is not None
        await asyncio.sleep(10)
        assert await cluster.get(PODS, "p") is None


@virtually
async def test_a_rule_gives_scripts_to_pods_by_label() -> None:
    async with fake_cluster() as cluster:
        cluster.nodes.script("app=special", "exit=7@1")
        await put(cluster, "special", restartPolicy="Never")
        pod = await cluster.until_phase("special", "Failed")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


@virtually
async def test_a_resized_pod_tells_its_new_size() -> None:
    async with fake_cluster() as cluster:
        await put(cluster, "p", **asking("1"))
        await cluster.until_phase("p", "Running")
        grown = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
        await cluster.client.patch(
            PODS,
            Key("default", "p"),
            {"spec": {"containers": grown}},
            kind="strategic",
            subresource="resize",
        )
        await asyncio.sleep(1)
        pod = await cluster.get(PODS, "p")
        assert pod is not None
        [container] = pod["status"]["containerStatuses"]
        assert container["allocatedResources"] == {"cpu": "2"}
        assert container["restartCount"] == 0
