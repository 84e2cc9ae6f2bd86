"""What the node agent keeps of a Pod that goes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from manta.api.well_known import ANNOTATION_KEEP_VOLUME, ANNOTATION_POSTS_PORT
from manta.localplane.node.pod.kept import kept_pods
from support.nodeplane import node_plane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]
KEPT: dict[str, Any] = {
    "metadata": {"annotations": {ANNOTATION_KEEP_VOLUME: "logs", ANNOTATION_POSTS_PORT: "8084"}},
    "volumes": [{"name": "logs", "emptyDir": {}}],
    "container": {"volumeMounts": [{"name": "logs", "mountPath": "/logs"}]},
    "terminationGracePeriodSeconds": 0,
}
POST = """import urllib.request, time
open("/logs/a.log", "w").write("kept")
for text in (b'["one"]', b'["two"]'):
    urllib.request.urlopen("http://localhost:8084/v1/events", data=text)
print("posted", flush=True)
time.sleep(1000)
"""


async def posted(node: Any) -> None:
    async with asyncio.timeout(20):
        while "posted" not in await node.logs():
            await asyncio.sleep(0.05)


async def test_a_volume_and_the_posts_of_a_deleted_pod_are_kept(tmp_path: Path) -> None:
    seen: list[int] = []
    async with node_plane(tmp_path, on_kept=lambda: seen.append(1)) as node:
        await node.run("pod", "python3", "-c", POST, **KEPT)
        await node.until_ready()
        await posted(node)
        await node.delete(grace=1)
        await node.until_gone()
        [kept] = kept_pods(node.options.dir / "kept")
        assert (kept / "volume" / "a.log").read_text() == "kept"
        assert (kept / "posts.jsonl").read_text() == '["one"]\n["two"]\n'
        assert b'"name":"pod"' in (kept / "pod.json").read_bytes()
        assert seen == [1]


async def test_a_pod_that_was_killed_while_no_agent_ran_is_kept(tmp_path: Path) -> None:
    async with node_plane(tmp_path, on_kept=lambda: None) as node:
        await node.run("pod", "python3", "-c", POST, **KEPT)
        await node.until_ready()
        await posted(node)
        from support.nodeplane import start, stop

        await stop(node.task)
        await node.delete(grace=0)
        node.agent, node.task = await start(node.plane, node.options)
        [kept] = kept_pods(node.options.dir / "kept")
        assert (kept / "posts.jsonl").read_text() == '["one"]\n["two"]\n'


async def test_posts_are_taken_again_after_a_restart_of_the_agent(tmp_path: Path) -> None:
    async with node_plane(tmp_path, on_kept=lambda: None) as node:
        await node.run("pod", "python3", "-c", POST, **KEPT)
        await node.until_ready()
        await posted(node)
        await node.restart_agent()
        again = "import urllib.request; print(urllib.request.urlopen('http://localhost:8084', data=b'3').status)"
        assert await node.execute("python3", "-c", again) == "200\n"


async def test_nothing_is_kept_without_the_annotation_or_when_the_plane_keeps_nothing(
    tmp_path: Path,
) -> None:
    async with node_plane(tmp_path, on_kept=lambda: None) as node:
        plain = {**KEPT, "metadata": {}}
        await node.run("pod", "sleep", "1000", **plain)
        await node.until_ready()
        await node.delete(grace=1)
        await node.until_gone()
        assert kept_pods(node.options.dir / "kept") == []


@pytest.mark.parametrize("name", ["..", "", "other", "../../x"])
async def test_only_an_emptydir_of_the_pod_is_kept(tmp_path: Path, name: str) -> None:
    async with node_plane(tmp_path, on_kept=lambda: None) as node:
        odd = {**KEPT, "metadata": {"annotations": {ANNOTATION_KEEP_VOLUME: name}}}
        await node.run("pod", "sleep", "1000", **odd)
        await node.until_ready()
        await node.delete(grace=1)
        await node.until_gone()
        assert kept_pods(node.options.dir / "kept") == []
