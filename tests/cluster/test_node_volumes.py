"""Claims, tokens and changes that reach running Pods."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS
from support.nodeplane import node_plane, state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "",
    },
}
USES_CLAIM = {
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    "container": {"volumeMounts": [{"name": "v", "mountPath": "/data"}]},
    "restartPolicy": "Never",
}


async def test_a_claim_is_bound_and_keeps_what_pods_write(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.client.create(PERSISTENT_VOLUME_CLAIMS, "default", CLAIM)
        await node.run("writer", "sh", "-c", "echo kept > /data/file", **USES_CLAIM)
        await node.until_phase("Succeeded", "writer")
        await node.run("reader", "cat", "/data/file", **USES_CLAIM)
        await node.until_phase("Succeeded", "reader")
        assert await node.logs("reader") == "kept\n"
        claim = await node.client.get(PERSISTENT_VOLUME_CLAIMS, Key("default", "data"))
        assert claim["status"]["phase"] == "Bound"
        assert claim["status"]["capacity"] == {"storage": "2Gi"}


async def test_a_pod_waits_for_a_claim_that_is_not_there(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("reader", "ls", "/data", **USES_CLAIM)
        await node.until(lambda pod: state(pod).get("waiting"), "reader")
        await node.client.create(PERSISTENT_VOLUME_CLAIMS, "default", CLAIM)
        await node.until_phase("Succeeded", "reader")
        assert (
            'persistentvolumeclaim "data" not found'
            in (await node.reasons("reader"))["FailedMount"]
        )


async def test_a_changed_config_map_reaches_a_running_pod(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        config = {"metadata": {"name": "cm"}, "data": {"k": "old"}}
        await node.client.create(CONFIG_MAPS, "default", config)
        container = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        volumes = [{"name": "v", "configMap": {"name": "cm"}}]
        await node.run("pod", "sleep", "1000", container=container, volumes=volumes)
        await node.until_ready()
        assert await node.execute("cat", "/v/k") == "old"
        await node.client.patch(CONFIG_MAPS, Key("default", "cm"), {"data": {"k": "new"}})
        worker = node.agent.worker("default", "pod")
        assert worker is not None
        await worker.refresh_volumes()
        assert await node.execute("cat", "/v/k") == "new"
