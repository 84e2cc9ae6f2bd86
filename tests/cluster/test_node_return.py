"""A plane that is started again over the state of an earlier one: nothing is ready before it is."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from manta.localplane.node.cleanup import end_all_processes, remove_everything
from manta.localplane.node.pod.lost_pods import mark_lost_pods
from support.nodeplane import NodePlane, a_container, is_ready, node_plane, restarts, state, stop
from support.nodeplane import start as start_agent

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]

NOW = datetime(2026, 11, 15, tzinfo=UTC)


async def switch_off(node: NodePlane, *, forget: bool = True) -> None:
    """As `manta down`: the agent and all processes end, the API objects stay. Or as a loss of power:
    the records of the Pods stay too."""
    await stop(node.task)
    if forget:
        remove_everything(node.options.dir)
    end_all_processes(node.options.dir)


async def switch_on(node: NodePlane) -> None:
    node.agent, node.task = await start_agent(node.plane, node.options)


@pytest.mark.parametrize("forget", [True, False])
async def test_a_pod_whose_processes_are_gone_is_not_ready_before_an_agent_looks(
    tmp_path: Path,
    forget: bool,
) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        await switch_off(node, forget=forget)
        assert await mark_lost_pods(node.client, tmp_path, NOW) == 1
        pod = await node.get()
        assert not is_ready(pod)
        assert state(pod)["terminated"]["reason"] == "ContainerStatusUnknown"
        assert not pod["status"]["containerStatuses"][0]["ready"]
        await switch_on(node)
        assert restarts(await node.until_ready()) == 1


async def test_a_pod_that_still_runs_is_believed_and_adopted_without_a_flap(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        before = await node.until_ready()
        await stop(node.task)
        assert await mark_lost_pods(node.client, tmp_path, NOW) == 0
        await switch_on(node)
        after = await node.get()
        assert is_ready(after)
        assert after["status"] == before["status"]


async def test_a_pod_that_is_never_restarted_fails_when_its_node_was_switched_off(
    tmp_path: Path,
) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000", restartPolicy="Never")
        await node.until_ready()
        await switch_off(node)
        await mark_lost_pods(node.client, tmp_path, NOW)
        await switch_on(node)
        pod = await node.until_phase("Failed")
        assert state(pod)["terminated"]["exitCode"] == 137


async def test_init_containers_do_their_work_again_on_a_node_that_comes_back(
    tmp_path: Path,
) -> None:
    async with node_plane(tmp_path) as node:
        mount: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        await node.create(
            "pod",
            a_container("sh", "-c", "test -e /v/made && sleep 1000", **mount),
            initContainers=[a_container("sh", "-c", "echo x > /v/made", name="init", **mount)],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        await node.until_ready()
        await switch_off(node)
        await mark_lost_pods(node.client, tmp_path, NOW)
        await switch_on(node)
        await node.until_ready()
        assert await node.execute("cat", "/v/made") == "x\n"
