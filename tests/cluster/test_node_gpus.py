"""GPUs of Pods on a node, with real processes and fake GPUs."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import NODES
from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.client.gpus import gpu_rows
from manta.localplane.node.gpus import pool
from manta.localplane.node.gpus.fake import BROKEN
from manta.localplane.node.gpus.machine_gpus import GpuOptions
from manta.localplane.node.host import wire
from manta.localplane.node.sandbox.sandbox import is_running
from manta.localplane.node.spec.pod_spec import NodePod
from support.nodeplane import TIMEOUT, NodePlane, Pod, node_plane, state, stop

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]

SHOW = "echo ${CUDA_VISIBLE_DEVICES-unset} $NVIDIA_VISIBLE_DEVICES; "


def gpu_container(count: int, **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {RESOURCE_NVIDIA_GPU: str(count)}}, **more}


async def run_with_gpu(node: NodePlane, name: str, then: str = "sleep 1000") -> None:
    container = gpu_container(1)
    script = SHOW + then
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    await node.run(name, "sh", "-c", script, container=container, **spec)


def held(pod: Pod) -> dict[str, str]:
    """GPU -> health, as the Pod's status shows them."""
    (container,) = pod["status"]["containerStatuses"]
    return {
        one["resourceID"]: one["health"]
        for group in container.get("allocatedResourcesStatus", ())
        for one in group["resources"]
    }


async def until_holding(node: NodePlane, name: str) -> dict[str, str]:
    return held(await node.until(lambda pod: "running" in state(pod) and held(pod), name))


def ids(node: NodePlane) -> list[str]:
    return [gpu.id for gpu in node.agent.machine.gpus.found]


async def test_each_pod_has_a_gpu_of_its_own_and_pods_without_a_request_have_none(
    tmp_path: Path,
) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=2)) as node:
        await run_with_gpu(node, "one")
        await run_with_gpu(node, "two")
        await node.run("none", "sh", "-c", SHOW, restartPolicy="Never")
        shown = {**await until_holding(node, "one"), **await until_holding(node, "two")}
        assert shown == dict.fromkeys(ids(node), "Healthy")
        await node.until_phase("Succeeded", "none")
        assert await node.logs("none") == "unset void\n"
        said = sorted([await node.logs("one"), await node.logs("two")])
        assert said == sorted(f"{id_} {id_}\n" for id_ in ids(node))


async def test_the_node_offers_its_gpus(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=3), nodes=2) as node:
        offered = {
            one["metadata"]["name"]: one["status"]["allocatable"][RESOURCE_NVIDIA_GPU]
            for one in (await node.client.list(NODES)).items
        }
        assert offered == {"manta-1": "2", "manta-2": "1"}


async def test_a_node_that_lost_its_gpus_over_a_restart_offers_none(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=2)) as node:
        node.options = replace(node.options, gpus=GpuOptions(limit=0))
        await node.restart_agent()
        status = (await node.client.get(NODES, Key("", "manta")))["status"]
        for kind in ("capacity", "allocatable"):
            assert "cpu" in status[kind]
            assert RESOURCE_NVIDIA_GPU not in status[kind]


async def test_a_gpu_stays_with_its_pod_over_a_restart_of_the_agent(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=1)) as node:
        await run_with_gpu(node, "one")
        before = await until_holding(node, "one")
        await node.restart_agent()
        await run_with_gpu(node, "late")
        late = await node.until(lambda pod: state(pod).get("waiting", {}).get("message"), "late")
        assert "1 nvidia.com/gpu wanted, 0 free of 1 on node manta" in str(state(late))
        assert held(await node.get("one")) == before
        await node.delete("one", grace=0)
        assert await until_holding(node, "late") == before


async def test_a_pod_that_is_deleted_while_no_agent_runs_returns_its_gpu(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=1)) as node:
        await run_with_gpu(node, "one")
        before = await until_holding(node, "one")
        [uid] = node.agent.machine.gpus.pool.holdings
        sandbox = wire.read_record(tmp_path / "pods" / uid / "sandbox.json")
        assert sandbox is not None
        assert is_running(sandbox)
        await stop(node.task)
        await node.delete("one", grace=0)
        await node.restart_agent()
        assert not node.agent.machine.gpus.pool.holdings
        assert not is_running(sandbox)
        assert not (tmp_path / "pods" / uid).exists()
        await run_with_gpu(node, "two")
        assert await until_holding(node, "two") == before


@pytest.mark.parametrize("deleted", [False, True], ids=["the Pod stays", "the Pod is deleted"])
async def test_an_agent_that_ends_between_the_record_and_the_pod_leaks_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    recorded = asyncio.Event()

    async def hang(one: pool.GpuPool, pod: NodePod) -> None:
        one.give(pod)
        recorded.set()
        await asyncio.Event().wait()

    async with node_plane(tmp_path, gpus=GpuOptions(fake=1)) as node:
        with monkeypatch.context() as patched:
            patched.setattr(pool.GpuPool, "give_when_returned", hang)
            await run_with_gpu(node, "one")
            async with asyncio.timeout(TIMEOUT):
                await recorded.wait()
            await stop(node.task)
        [record] = (tmp_path / "pods").glob(f"*/{pool.RECORD}")
        if deleted:
            await node.delete("one", grace=0)
        await node.restart_agent()
        await run_with_gpu(node, "two")
        if deleted:
            assert await until_holding(node, "two") == dict.fromkeys(ids(node), "Healthy")
            assert not record.exists()
        else:
            assert await until_holding(node, "one") == dict.fromkeys(ids(node), "Healthy")
            late = await node.until(lambda pod: state(pod).get("waiting", {}).get("message"), "two")
            assert "0 free of 1 on node manta" in str(state(late))


async def test_a_pod_that_has_ended_returns_its_gpu_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "RETURN_SECONDS", 60.0)  # a loaded machine ends processes late
    async with node_plane(tmp_path, gpus=GpuOptions(fake=1)) as node:
        await run_with_gpu(node, "one", then="exit 0")
        await node.until_phase("Succeeded", "one")
        await run_with_gpu(node, "two")
        await until_holding(node, "two")
        assert "FailedCreatePodSandBox" not in await node.reasons("two")


async def test_a_gpu_that_falls_off_is_told_by_the_node_and_by_its_pod(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=2)) as node:
        await run_with_gpu(node, "one")
        (broken,) = await until_holding(node, "one")
        (tmp_path / BROKEN).write_text(f"{broken}\n")
        await node.restart_agent()  # it looks at once, and then every ten seconds
        await node.until(lambda pod: held(pod) == {broken: "Unhealthy"}, "one")
        async with asyncio.timeout(TIMEOUT):
            while True:  # the Pod may be told first
                status = (await node.client.get(NODES, Key("", "manta")))["status"]
                said = {one["type"]: one["message"] for one in status["conditions"]}
                if "GpuUnavailable" in said:
                    break
                await asyncio.sleep(0.02)
        assert status["capacity"][RESOURCE_NVIDIA_GPU] == "2"
        assert status["allocatable"][RESOURCE_NVIDIA_GPU] == "1"
        assert said["GpuUnavailable"] == f"fake {broken}: the fake GPU has fallen off"
        while "GpuUnavailable" not in await node.reasons("one"):
            await asyncio.sleep(0.02)


async def test_without_isolation_the_variables_say_which_gpu_a_pod_may_use(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=1), isolation="none") as node:
        await node.run("none", "sh", "-c", SHOW, restartPolicy="Never")
        await node.until_phase("Succeeded", "none")
        await run_with_gpu(node, "one")
        await until_holding(node, "one")
        (own,) = ids(node)
        assert (await node.logs("none"), await node.logs("one")) == ("void\n", f"{own} {own}\n")


async def test_the_node_tells_who_holds_a_gpu_and_which_processes_use_it(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(fake=1)) as node:
        node.plane.app.connector = node.agent.connector
        await run_with_gpu(node, "one")
        await until_holding(node, "one")
        manta = await node.client.get(NODES, Key("", "manta"))
        (row,) = await gpu_rows(node.client, [manta])
        assert (row.pod, row.busy, row.leaks, row.trouble) == ("default/one", 0, [], "")
        (state_,) = await node.agent.connector.node_document("manta", "gpus")
        uid = (await node.get("one"))["metadata"]["uid"]
        assert {one["uid"] for one in state_["processes"]} == {uid}


async def test_a_node_with_fewer_gpus_than_were_asked_for_says_so(tmp_path: Path) -> None:
    async with node_plane(tmp_path, gpus=GpuOptions(limit=3)) as node:
        offered = len(node.agent.machine.gpus.pool.of_node("manta"))
        status = (await node.client.get(NODES, Key("", "manta")))["status"]
        found = {one["type"]: (one["reason"], one["message"]) for one in status["conditions"]}
        if offered >= 3:
            assert "GpuUnavailable" not in found
        else:
            reason, message = found["GpuUnavailable"]
            assert reason == "FewerThanAskedFor"
            assert message.startswith(f"--gpus 3: this machine has {offered} to offer")
