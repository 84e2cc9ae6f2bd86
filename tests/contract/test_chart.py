"""The chart on a server: installed, upgraded and uninstalled by Helm, on ours and on a real one.

CRDs belong to the whole cluster: on a server that has other people's, nothing here is run.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.crds import CRD_NAMES
from support.cluster_api import eventually
from support.contract import EXTERNAL, MERGE, Api
from support.fakenodes_external import fake_nodes
from support.helm import CHART, ROOT, helm

pytestmark = pytest.mark.timeout(600)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
GOLDEN = ROOT / "tests/golden/chart"


@dataclass
class Release:
    api: Api
    kubeconfig: Path
    chart: Path

    async def helm(self, verb: str, *arguments: str | Path, check: bool = True) -> Any:
        """In a thread: the fake nodes live in this one."""
        where = ("-n", self.api.namespace)
        return await asyncio.to_thread(
            helm, verb, "manta", *arguments, *where, kubeconfig=self.kubeconfig, check=check
        )

    async def install(self, *more: str, verb: str = "install", chart: Path = CHART) -> None:
        await self.helm(verb, chart, "--wait", "--timeout", "240s", "--take-ownership", *more)

    async def deployment(self) -> dict[str, Any]:
        answer = await self.api.get(self.api.path("deployments", "manta", api="/apis/apps/v1"))
        assert answer.status == 200, answer.text
        found: dict[str, Any] = answer.body
        return found

    async def crd(self, name: str = "raycronjobs.ray.io") -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.get(f"{CRDS}/{name}")).body
        return found

    async def may(self, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        account = f"system:serviceaccount:{self.api.namespace}:manta"
        spec = {"user": account, "resourceAttributes": attributes}
        answer = await self.api.made(REVIEWS, {"spec": spec})
        return bool(answer["status"]["allowed"])


@pytest.fixture
async def release(cluster: Api, kubeconfig: Path) -> AsyncIterator[Release]:
    taken = [name for name in CRD_NAMES if (await cluster.get(f"{CRDS}/{name}")).status == 200]
    if taken:
        pytest.skip(f"{', '.join(taken)} are on this server already, and may be someone's")
    labels = {"metadata": {"labels": RESTRICTED}}
    await cluster.patch(f"/api/v1/namespaces/{cluster.namespace}", labels, MERGE)
    found = Release(cluster, kubeconfig, CHART)
    async with fake_nodes(kubeconfig, f"{cluster.namespace}-"):
        yield found
        await found.helm("uninstall", "--ignore-not-found", check=False)
        for name in CRD_NAMES:
            await cluster.delete(f"{CRDS}/{name}")
            await cluster.until_gone(f"{CRDS}/{name}")


def fields_of(crd: dict[str, Any]) -> set[str]:
    [version] = [one for one in crd["spec"]["versions"] if one["storage"]]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return set(schema)


def older_chart(directory: Path) -> Path:
    """As if a version of the chart had come before that knew less."""
    chart = directory / "manta"
    shutil.copytree(CHART, chart)
    file = chart / "crds-json/raycronjobs.ray.io.json"
    crd = json.loads(file.read_text())
    for version in crd["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("timeZone")
    file.write_text(json.dumps(crd))
    return chart


async def test_an_installed_operator_is_available_in_a_restricted_namespace(
    release: Release,
) -> None:
    await release.install("--set", "replicas=2")
    deployment = await release.deployment()
    assert deployment["status"]["availableReplicas"] == 2
    pods = (await release.api.get(release.api.path("pods"))).body["items"]
    assert len(pods) == 2
    [budget] = (
        await release.api.get(release.api.path("poddisruptionbudgets", api="/apis/policy/v1"))
    ).body["items"]
    assert budget["spec"]["minAvailable"] == 1


async def test_an_upgrade_keeps_the_key_of_the_consoles_cookies(release: Release) -> None:
    """Another key would log everybody out."""
    await release.install("--set", "console.enabled=true")
    path = release.api.path("secrets", "manta-console-key")
    before = (await release.api.get(path)).body["data"]["key"]
    await release.install("--set", "console.enabled=true,labels.a=b", verb="upgrade")
    after = (await release.api.get(path)).body
    assert (after["data"]["key"], after["metadata"]["labels"]["a"]) == (before, "b")
    console = release.api.path("deployments", "manta-console", api="/apis/apps/v1")
    assert (await release.api.get(console)).body["status"]["availableReplicas"] == 1


@pytest.mark.skipif(not os.environ.get(EXTERNAL), reason="Pod Security is a real server's")
async def test_pod_security_would_refuse_what_is_not_restricted(release: Release) -> None:
    await release.helm("install", CHART, "--take-ownership", "--set", "securityContext=null")

    async def refused() -> bool:
        conditions = (await release.deployment()).get("status", {}).get("conditions") or ()
        return any("violates PodSecurity" in one.get("message", "") for one in conditions)

    await eventually(refused)


async def test_an_upgrade_brings_new_fields_of_the_crds(release: Release, tmp_path: Path) -> None:
    await release.install(chart=older_chart(tmp_path))
    assert "timeZone" not in fields_of(await release.crd())
    await release.install("--set", "reconcileConcurrency=3", verb="upgrade")
    assert "timeZone" in fields_of(await release.crd())
    [container] = (await release.deployment())["spec"]["template"]["spec"]["containers"]
    assert "--reconcile-concurrency=3" in container["args"]


async def test_an_uninstall_leaves_the_crds_and_the_users_clusters(release: Release) -> None:
    await release.install()
    path = release.api.path("rayclusters", api="/apis/ray.io/v1")
    document = yaml.safe_load((ROOT / "examples/quickstart.yaml").read_text())
    document["metadata"].pop("namespace", None)
    made = await release.api.made(path, document)
    await release.helm("uninstall", "--wait")
    kept = await release.api.get(f"{path}/{made['metadata']['name']}")
    assert kept.body["metadata"]["uid"] == made["metadata"]["uid"]
    gone = await release.api.get(release.api.path("deployments", "manta", api="/apis/apps/v1"))
    assert gone.status == 404
    await release.install()
    again = await release.api.get(f"{path}/{made['metadata']['name']}")
    assert again.body["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_release_for_some_namespaces_may_do_nothing_elsewhere(release: Release) -> None:
    here = release.api.namespace
    await release.install("--set", f"watchNamespaces={{{here}}}")
    assert await release.may("create", "", "pods", here)
    assert await release.may("update", "coordination.k8s.io", "leases", here)
    assert not await release.may("create", "", "pods", "default")
    assert not await release.may("list", "ray.io", "rayclusters")


async def test_a_release_for_the_whole_cluster_lists_no_secrets(release: Release) -> None:
    await release.install()
    assert await release.may("list", "ray.io", "rayclusters")
    assert await release.may("get", "", "secrets", "default")
    for verb in ("list", "watch", "delete", "update"):
        assert not await release.may(verb, "", "secrets")
        assert not await release.may(verb, "", "secrets", release.api.namespace)
    assert not await release.may("update", "coordination.k8s.io", "leases", "default")


@pytest.mark.parametrize("values", ["default", "everything", "kuberay", "namespaces"])
async def test_a_server_takes_every_golden_rendering(cluster: Api, values: str) -> None:
    """Monitoring is left out: its kinds are the Prometheus operator's. Ours asks no webhooks."""
    unknown = ("monitoring.", "admissionregistration.") if cluster.embedded else ("monitoring.",)
    refused = []
    for document in yaml.safe_load_all((GOLDEN / f"{values}.yaml").read_text()):
        if document["apiVersion"].startswith(unknown):
            continue
        answer = await cluster.create(
            _collection(cluster, document), document, query={"dryRun": "All"}
        )
        if answer.status != 201:
            refused.append((document["kind"], answer.message))
    assert refused == []


def _collection(api: Api, document: dict[str, Any]) -> str:
    version, kind = document["apiVersion"], document["kind"]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    plural = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}.get(
        kind, f"{kind.lower()}s"
    )
    if "namespace" not in document["metadata"]:
        return f"{root}/{plural}"
    document["metadata"]["namespace"] = api.namespace
    return api.path(plural, api=root)
