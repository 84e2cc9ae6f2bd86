"""The history server on the embedded plane: the caller's own token and RBAC decide."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import NAMESPACES, SERVICE_ACCOUNTS, Resource
from manta.cli.server.live_clusters import live_of_callers
from manta.history.layout import SessionKey
from manta.history.serve.access import KubernetesAccess, OwnerAccess
from manta.history.serve.server import HistoryHandler
from manta.httpserver.messages import HttpRequest
from manta.kube.client import Client
from manta.kube.config import load
from manta.localplane.plane import Plane, PlaneOptions
from support.history import SESSION, recorded_session
from support.raycluster import ray_cluster
from support.raycrds import ray_crds

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
GONE = SessionKey("gone", "raycluster", "demo", SESSION)


async def reader_of(client: Client, namespace: str, *verbs: str) -> str:
    """A ServiceAccount of `default` that may read the Ray kinds of one namespace; its token."""
    await client.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": f"of-{namespace}"}})
    rule = {
        "apiGroups": ["ray.io"],
        "resources": ["rayjobs", "rayclusters"],
        "verbs": verbs or ["get"],
    }
    await client.create(ROLES, namespace, {"metadata": {"name": "reader"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": f"of-{namespace}", "namespace": "default"}],
    }
    await client.create(ROLE_BINDINGS, namespace, binding)
    asked = {"spec": {"expirationSeconds": 600}}
    answer = await client.create(
        SERVICE_ACCOUNTS, "default", asked, subresource=(f"of-{namespace}", "token"), into=dict
    )
    return str(answer["status"]["token"])


async def test_a_token_reads_what_its_user_may_get_and_nothing_else(tmp_path: Path) -> None:
    async with Plane(PlaneOptions(dir=tmp_path / "plane", memory=True)) as plane:
        await plane.client.create(NAMESPACES, "", {"metadata": {"name": "team"}})
        own, other = await reader_of(plane.client, "default"), await reader_of(plane.client, "team")
        access = KubernetesAccess(plane.client)
        handler = HistoryHandler(recorded_session(tmp_path), access, [], secure=True)
        base = f"/history/default/rayjob/train/{SESSION}/"

        async def status(path: str, token: str) -> int:
            headers = {"authorization": f"Bearer {token}"}
            return (await handler.handle(HttpRequest("GET", path, (), headers))).status

        assert await status(f"{base}api/jobs/", own) == 200
        assert await status(f"{base}api/jobs/", other) == 403
        assert await status(f"{base}api/jobs/", f"{own}x") == 401
        assert await status(f"{base}api/jobs/", "") == 401
        listed = await handler.handle(
            HttpRequest("GET", "/history/", (), {"authorization": f"Bearer {other}"})
        )
        assert isinstance(listed.body, bytes)
        assert b"train" not in listed.body


@pytest.mark.parametrize(
    "path",
    [
        "default/rayjob/train/../../../../../etc/passwd",
        "default/rayjob/train/..",
        "default/rayjob/../train/session_x/api/jobs/",
        "default/rayjob/train/session_../api/jobs/",
        f"default/rayjob/train/{SESSION}/../../../../../../etc/passwd",
        f"default/rayjob/train/{SESSION}/nodes/../../session.json",
        f"default/rayjob/train/{SESSION}/logical/actors/..%2f..",
        f"default/rayjob/train/{SESSION}/session.json",
        f"default/rayjob/train/{SESSION}/api/v0/logs/file?filename=../../../session.json",
        f"default/rayjob/train/{SESSION}/api/v0/logs/file?filename=raylet.out&node_id=../{SESSION}",
        f"default/rayjob/train/{SESSION}/api/v0/logs/file?task_id=../../x",
        f"default/rayjob/train/{SESSION}/api/v0/logs?node_id=../../..&glob=*",
        f"default/rayjob/other/{SESSION}/api/jobs/",
    ],
)
async def test_tricks_with_names_are_not_found(tmp_path: Path, path: str) -> None:
    access = OwnerAccess()
    handler = HistoryHandler(recorded_session(tmp_path), access, [], secure=False)
    name, _, query = path.partition("?")
    headers = {"authorization": f"Bearer {access.token}"}
    request = HttpRequest("GET", f"/history/{name}", tuple(parse_qsl(query)), headers)
    assert (await handler.handle(request)).status == 404


async def test_a_user_without_rights_learns_nothing_of_what_exists(tmp_path: Path) -> None:
    async with Plane(PlaneOptions(dir=tmp_path / "plane", memory=True)) as plane:
        await plane.client.create(NAMESPACES, "", {"metadata": {"name": "team"}})
        token = await reader_of(plane.client, "team")
        access = KubernetesAccess(plane.client)
        handler = HistoryHandler(recorded_session(tmp_path), access, [], secure=True)
        found = []
        for name in ("train", "no-such-job"):
            path = f"/history/default/rayjob/{name}/{SESSION}/api/jobs/"
            headers = {"authorization": f"Bearer {token}"}
            found.append((await handler.handle(HttpRequest("GET", path, (), headers))).status)
        assert found == [403, 403]


async def test_a_namespace_that_is_gone_is_for_a_named_group_only(tmp_path: Path) -> None:
    async with Plane(PlaneOptions(dir=tmp_path / "plane", memory=True)) as plane:
        token = await reader_of(plane.client, "default")
        for group, allowed in (("", False), ("admins", False), ("system:serviceaccounts", True)):
            access = KubernetesAccess(plane.client, group)
            user = await access.user(token)
            assert user is not None
            assert await access.may_read(user, GONE) is allowed


async def overview(handler: HistoryHandler, token: str) -> str:
    headers = {"authorization": f"Bearer {token}"}
    answer = await handler.handle(HttpRequest("GET", "/history/", (), headers))
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


async def test_running_clusters_are_listed_with_the_callers_own_rights(tmp_path: Path) -> None:
    async with Plane(PlaneOptions(dir=tmp_path / "plane", memory=True)) as plane:
        for crd in ray_crds():
            plane.app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
        for name, head in (("up", {"podName": "up-head", "podIP": "10.0.0.1"}), ("starting", {})):
            await plane.client.create(RAY_CLUSTERS, "default", ray_cluster(name))
            status = {"status": {"head": head}}
            await plane.client.patch(RAY_CLUSTERS, Key("default", name), status, subresource="status")  # fmt: skip
        may = await reader_of(plane.client, "default", "get", "list")
        may_not = await reader_of(plane.client, "kube-system", "get", "list")
        cluster = load(plane.kubeconfig)
        handler = HistoryHandler(
            recorded_session(tmp_path), KubernetesAccess(plane.client), [], secure=True,
            live=live_of_callers(cluster, "https://h/{namespace}/{name}/"),
        )  # fmt: skip
        assert 'href="https://h/default/up/"' in await overview(handler, may)
        assert "starting" not in await overview(handler, may)
        assert "https://h/" not in await overview(handler, may_not)
