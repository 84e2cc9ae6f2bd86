"""`manta install` and `manta uninstall` as a user runs them, on ours and on a real server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from manta.api.crds import CRD_NAMES
from support.contract import Api
from support.fakenodes_external import fake_nodes
from support.helm import ROOT

pytestmark = pytest.mark.timeout(300)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
QUICKSTART = ROOT / "examples/quickstart.yaml"


@dataclass
class Terminal:
    api: Api
    kubeconfig: Path

    async def manta(self, *arguments: str, code: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "manta.cli.main", *arguments),
            *("--kubeconfig", str(self.kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == code, output.decode()
        return output.decode()

    async def install(self, *flags: str, code: int = 0) -> str:
        return await self.manta(
            "install",
            "-n",
            self.api.namespace,
            "--timeout",
            "240",
            "--image",
            "i",
            *flags,
            code=code,
        )

    async def has(self, path: str) -> bool:
        return (await self.api.get(path)).status == 200

    @property
    def deployment(self) -> str:
        return self.api.path("deployments", "manta", api="/apis/apps/v1")

    @property
    def clusters(self) -> str:
        return self.api.path("rayclusters", api="/apis/ray.io/v1")


@pytest.fixture
async def terminal(cluster: Api, kubeconfig: Path) -> AsyncIterator[Terminal]:
    found = Terminal(cluster, kubeconfig)
    taken = [name for name in CRD_NAMES if await found.has(f"{CRDS}/{name}")]
    if taken:
        pytest.skip(f"{', '.join(taken)} are on this server already, and may be someone's")
    async with fake_nodes(kubeconfig, f"{cluster.namespace}-"):
        yield found
        await found.manta("uninstall", "--crds", "--force")


async def test_it_waits_until_the_operator_is_available_and_says_what_for(
    terminal: Terminal,
) -> None:
    said = await terminal.install("--replicas", "2")
    assert "customresourcedefinition/rayclusters.ray.io created" in said
    assert "deployment/manta created" in said
    assert "deployment/manta                         ready" in said
    deployment = (await terminal.api.get(terminal.deployment)).body
    assert deployment["status"]["availableReplicas"] == 2
    again = await terminal.install("--replicas", "2")
    assert "created" not in again
    assert "deployment/manta unchanged" in again


async def test_a_namespace_that_is_there_is_left_as_it_is(terminal: Terminal) -> None:
    path = f"/api/v1/namespaces/{terminal.api.namespace}"
    before = (await terminal.api.get(path)).body["metadata"]
    said = await terminal.install("--no-wait")
    assert f"namespace/{terminal.api.namespace} unchanged" in said
    assert (await terminal.api.get(path)).body["metadata"] == before


async def test_a_dry_run_changes_nothing(terminal: Terminal) -> None:
    said = await terminal.install("--dry-run")
    assert "deployment/manta created (dry run)" in said
    assert not await terminal.has(terminal.deployment)
    assert not await terminal.has(f"{CRDS}/rayclusters.ray.io")
    said = await terminal.install("--dry-run", "-n", f"{terminal.api.namespace}-new")
    assert f"namespace/{terminal.api.namespace}-new created (dry run)" in said
    assert not await terminal.has(f"/api/v1/namespaces/{terminal.api.namespace}-new")


async def test_an_operator_that_does_not_come_up_is_said_to_be_so(terminal: Terminal) -> None:
    await terminal.api.create(
        terminal.api.path("resourcequotas"),
        {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}},
    )
    said = await terminal.install("--timeout", "5", code=1)
    assert "not everything was ready within 5 s" in said


async def test_it_does_not_go_beside_a_kuberay_that_runs(terminal: Terminal) -> None:
    labels = {"app": "kuberay"}
    container = {"name": "operator", "image": "registry.example/kuberay/operator:v1.7.0"}
    rival = {
        "metadata": {"name": "theirs"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    await terminal.api.made(terminal.api.path("deployments", api="/apis/apps/v1"), rival)
    said = await terminal.install(code=2)
    assert "a KubeRay operator runs. Manta must not manage" in said
    assert "scale deployment theirs --replicas=0" in said
    assert not await terminal.has(f"{CRDS}/rayclusters.ray.io")
    path = terminal.api.path("deployments", "theirs", api="/apis/apps/v1")
    await terminal.api.delete(path)
    await terminal.api.until_gone(path)


async def test_some_namespaces_get_roles_and_lose_them_again(terminal: Terminal) -> None:
    role = terminal.api.path("roles", "manta", api=ROLES)
    await terminal.install("--watch-namespaces", terminal.api.namespace)
    assert await terminal.has(role)
    assert not await terminal.has(f"{ROLES}/clusterroles/manta")
    await terminal.manta("uninstall")
    assert not await terminal.has(role)


JSON_PATCH = "application/json-patch+json"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def test_a_webhook_comes_and_goes_as_it_is_wished(terminal: Terminal) -> None:
    if terminal.api.embedded:
        said = await terminal.install("--webhook", code=2)
        assert "this API server does not support webhooks" in said
        assert not await terminal.has(terminal.deployment)
        return
    said = await terminal.install("--webhook")
    assert "validatingwebhookconfiguration/manta-webhook created" in said
    assert "deployment/manta-webhook                 ready" in said
    bundle = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "bWFudGE="}]
    changed = await terminal.api.patch(f"{HOOKS}/manta-webhook", bundle, JSON_PATCH)
    assert changed.status == 200
    secret = {"metadata": {"name": "manta-webhook-certificates"}}
    await terminal.api.made(terminal.api.path("secrets"), secret)

    await terminal.install("--webhook", "--no-wait")
    [hook] = (await terminal.api.get(f"{HOOKS}/manta-webhook")).body["webhooks"]
    assert hook["clientConfig"]["caBundle"] == "bWFudGE="  # the webhook's own, and left alone

    place = "/webhooks/0/clientConfig/service/namespace"
    ours = hook["clientConfig"]["service"]["namespace"]
    for namespace, code in (("another", 2), (ours, 0)):
        move = [{"op": "replace", "path": place, "value": namespace}]
        await terminal.api.patch(f"{HOOKS}/manta-webhook", move, JSON_PATCH)
        said = await terminal.install("--webhook", "--no-wait", code=code)
        assert ("the cluster already has a webhook in another" in said) is bool(code)

    said = await terminal.install("--no-wait")
    assert "deployment/manta-webhook deleted" in said
    assert not await terminal.has(f"{HOOKS}/manta-webhook")
    assert not await terminal.has(terminal.api.path("secrets", "manta-webhook-certificates"))
    assert await terminal.has(terminal.deployment)

    await terminal.install("--webhook", "--no-wait")
    await terminal.manta("uninstall")
    assert not await terminal.has(f"{HOOKS}/manta-webhook")
    assert not await terminal.has(terminal.deployment)


async def test_a_console_comes_and_goes_as_it_is_wished(terminal: Terminal) -> None:
    secret = terminal.api.path("secrets", "manta-console-key")
    said = await terminal.install("--console")
    assert "secret/manta-console-key created" in said
    assert "deployment/manta-console                 ready" in said
    key = (await terminal.api.get(secret)).body["data"]["key"]
    said = await terminal.install("--console", "https://ray.example", "--no-wait")
    assert "manta-console-key" not in said
    assert (await terminal.api.get(secret)).body["data"]["key"] == key

    said = await terminal.install("--no-wait")
    assert "deployment/manta-console deleted" in said
    assert not await terminal.has(secret)
    assert await terminal.has(terminal.deployment)
    said = await terminal.install("--console", "http://ray.example", code=2)
    assert "without TLS" in said


async def test_an_uninstall_leaves_the_crds_and_the_users_clusters(terminal: Terminal) -> None:
    await terminal.install()
    document = yaml.safe_load(QUICKSTART.read_text())
    document["metadata"].pop("namespace", None)
    made = await terminal.api.made(terminal.clusters, document)
    path = f"{terminal.clusters}/{made['metadata']['name']}"

    refused = await terminal.manta("uninstall", "--crds", code=2)
    assert f"1 RayCluster ({terminal.api.namespace}/quickstart)" in refused
    assert await terminal.has(terminal.deployment)

    said = await terminal.manta("uninstall")
    assert "not deleted: 1 RayCluster" in said
    assert not await terminal.has(terminal.deployment)
    kept = (await terminal.api.get(path)).body
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]

    await terminal.manta("uninstall", "--crds", "--force")
    assert not await terminal.has(f"{CRDS}/rayclusters.ray.io")
