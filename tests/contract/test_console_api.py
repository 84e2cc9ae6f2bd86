"""The API of the console in front of a real API server: what it passes on is what that server says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from manta.api.crds import crd_documents
from manta.console.api.callers import Callers
from manta.console.api.handler import RayApi
from manta.console.login.link import LinkLogin
from manta.console.login.links import OneTimeLinks
from manta.console.router import Router
from manta.console.server import LIMITS, ConsoleHandler, Settings
from manta.console.sessions import Cookies
from manta.console.visitors import Visitors
from manta.httpserver.server import HttpServer
from manta.kube.client import Client
from manta.kube.cluster import Cluster, User
from manta.kube.config import load
from manta.kube.transport import HttpTransport
from manta.runtime.clock import SystemClock
from support.console import COMMANDS, KEY
from support.console_api import ray_cluster
from support.contract import Answer, Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
RAY = "/apis/ray.io/v1"
VERBS = {"admin": ["*"], "view": ["get", "list", "watch"], "nobody": []}
CHANGING = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "time")


@dataclass(frozen=True, slots=True)
class Console:
    admin: Api
    """The API server itself."""
    url: str
    cluster: Cluster

    @asynccontextmanager
    async def both(self, token: str) -> AsyncIterator[tuple[Api, Api]]:
        """The console and the API server, as the bearer of this token."""
        user = User("the test", token=token)
        through = HttpTransport(Cluster(self.url, user))
        direct = HttpTransport(replace(self.cluster, user=user))
        try:
            yield (
                Api(through, embedded=self.admin.embedded),
                Api(direct, embedded=self.admin.embedded),
            )
        finally:
            await through.close()
            await direct.close()


@pytest.fixture
async def console(cluster: Api, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Console]:
    for crd in crd_documents():
        made = await cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        assert made.status in (201, 409), made.text
    async with asyncio.timeout(30):
        while (await cluster.get(f"{RAY}/rayclusters")).status != 200:
            await asyncio.sleep(0.1)
    found, clock = load(kubeconfig), SystemClock()
    visitors = Visitors(lambda _session: Client(HttpTransport(found)), clock)
    direct = HttpTransport(replace(found, user=User("the bearer token of the request")))
    settings = Settings(Cookies(KEY, port=1), LinkLogin(OneTimeLinks(tmp_path)))
    api = RayApi(Callers(direct, visitors, clock))
    handler = ConsoleHandler(settings, visitors, Router(COMMANDS), api, clock)
    server = HttpServer(handler, frozenset({"127.0.0.1"}), LIMITS)
    port = await server.start("127.0.0.1", 0)
    yield Console(cluster, f"http://127.0.0.1:{port}", found)
    await server.stop(0.1)
    await visitors.close()
    await direct.close()


async def _token(api: Api, name: str) -> str:
    """Of a ServiceAccount with the rights of this name, in the namespace of the test."""
    await api.made(api.path("serviceaccounts"), {"metadata": {"name": name}})
    groups = ["ray.io", "", "events.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": VERBS[name]}] if VERBS[name] else []
    roles, bindings = (
        f"{RBAC}/namespaces/{api.namespace}/{one}" for one in ("roles", "rolebindings")
    )
    await api.made(roles, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": api.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    await api.made(
        bindings, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    )
    answer = await api.made(api.path("serviceaccounts", name, "token"), {"spec": {}})
    return str(answer["status"]["token"])


def _comparable(answer: Answer) -> Any:
    if "json" not in answer.headers.get("content-type", ""):
        return answer.text
    return _without(answer.body)


def _without(value: Any) -> Any:
    """Without what is new in every object."""
    if isinstance(value, dict):
        return {name: _without(one) for name, one in value.items() if name not in CHANGING}
    return [_without(one) for one in value] if isinstance(value, list) else value


async def test_every_user_gets_the_answers_of_the_server(console: Console) -> None:
    space = console.admin.namespace
    many = f"{RAY}/namespaces/{space}/rayclusters"
    await console.admin.made(many, ray_cluster("demo"))
    service = {"metadata": {"name": "demo-svc", "labels": {"app.kubernetes.io/name": "kuberay"}}}
    ports = {"spec": {"ports": [{"port": 8265}]}}
    await console.admin.made(console.admin.path("services"), service | ports)
    proxy = f"/api/v1/namespaces/{space}/services/demo-svc:8265/proxy"
    asked: list[tuple[str, str, Any]] = [
        ("GET", RAY, None),
        ("GET", f"{RAY}/rayclusters", None),
        ("GET", many, None),
        ("GET", f"{many}/demo", None),
        ("GET", f"{many}/demo/status", None),
        ("GET", f"{many}/none", None),
        ("POST", f"{many}?dryRun=All", ray_cluster("new")),
        ("POST", f"{many}?dryRun=All", ray_cluster("demo")),
        ("POST", f"{many}?dryRun=All&fieldValidation=Strict", ray_cluster("new", nonsense=1)),
        ("PATCH", f"{many}/demo?dryRun=All", {"metadata": {"labels": {"a": "b"}}}),
        ("DELETE", f"{many}/none", None),
        ("DELETE", f"{many}?dryRun=All", None),
        ("POST", f"{proxy}/api/jobs/", {}),
    ]
    for name in VERBS:
        token = await _token(console.admin, name)
        async with console.both(token) as (through, direct):
            for method, path, body in asked:
                plain, _, query = path.partition("?")
                pairs = dict(one.split("=") for one in query.split("&") if one)
                kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
                ours, theirs = [
                    await one.request(method, plain, body, query=pairs, content_type=kind)
                    for one in (through, direct)
                ]
                assert ours.status == theirs.status, (name, method, path, ours.text)
                if plain.startswith(proxy) and ours.status == 403:
                    continue  # the console asks for the Service first: another right is missing first
                assert _comparable(ours) == _comparable(theirs), (name, method, path)


async def test_a_watch_streams_from_the_server(console: Console) -> None:
    many = f"{RAY}/namespaces/{console.admin.namespace}/rayclusters"
    async with (
        console.both(await _token(console.admin, "view")) as (through, _),
        through.watch(many) as events,
    ):
        for name in ("one", "two"):
            await console.admin.made(many, ray_cluster(name))
            assert await events.take(1) == [("ADDED", name)]


async def test_a_service_without_a_trailing_slash_is_redirected_inside(console: Console) -> None:
    service = {"metadata": {"name": "demo-svc", "labels": {"app.kubernetes.io/name": "kuberay"}}}
    await console.admin.made(
        console.admin.path("services"), service | {"spec": {"ports": [{"port": 8265}]}}
    )
    path = console.admin.path("services", "demo-svc:8265", "proxy")
    async with console.both(await _token(console.admin, "admin")) as (through, direct):
        ours, theirs = await through.get(path), await direct.get(path)
        assert ours.status == theirs.status
        if theirs.status == 301:
            assert ours.headers["location"] == theirs.headers["location"] == f"{path}/"


async def test_events_about_ray_alone(console: Console) -> None:
    space = console.admin.namespace
    for kind, version in (("RayCluster", "ray.io/v1"), ("Pod", "v1")):
        about = {"kind": kind, "namespace": space, "name": "demo", "apiVersion": version}
        event = {"metadata": {"generateName": "e-"}, "involvedObject": about, "reason": "Testing"}
        await console.admin.made(console.admin.path("events"), event)
    path = f"/apis/events.k8s.io/v1/namespaces/{space}/events"
    async with console.both(await _token(console.admin, "view")) as (through, _):
        found = (await through.get(path)).body["items"]
        assert [one["regarding"]["kind"] for one in found if one["reason"] == "Testing"] == [
            "RayCluster"
        ]
        other = await through.get(path, query={"fieldSelector": "regarding.apiVersion=v1"})
        assert other.body["items"] == []


async def test_a_compute_template_passes_strict_validation(console: Console) -> None:
    space = console.admin.namespace
    async with console.both(await _token(console.admin, "admin")) as (through, _):
        template = {"name": "small", "cpu": 1, "memory": 2, "gpu": 1}
        path = f"/apis/v1/namespaces/{space}/compute_templates"
        assert (await through.create(path, template)).status == 200
        made = await through.create(
            f"{RAY}/namespaces/{space}/rayclusters",
            ray_cluster("filled", computeTemplate="small"),
            query={"fieldValidation": "Strict"},
        )
        assert made.status == 201, made.text
        [container] = made.body["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {
            "cpu": "1",
            "memory": "2Gi",
            "nvidia.com/gpu": 1,
        }
