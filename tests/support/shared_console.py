"""A console for many people, as `manta console --login` starts it, on an embedded plane with real tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from manta.api.resources import NAMESPACES, SERVICE_ACCOUNTS, Resource
from manta.cli.main import parse
from manta.cli.server.console_shared import SharedConsole
from manta.kube.client import Client
from manta.localplane.plane import Plane, PlaneOptions
from support.raycrds import ray_crds

NAME = "manta-console.localhost"
RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE_BINDINGS = Resource(
    RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")


@dataclass(slots=True)
class Browser:
    """A browser that keeps cookies, and sends what browsers send."""

    port: int
    host: str = NAME
    cookies: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    answer: aiohttp.ClientResponse | None = None
    """To the last request."""

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        return await self._send("GET", path, None, headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> tuple[int, str]:
        site = {"sec-fetch-site": "same-origin"}
        return await self._send("POST", path, urlencode(fields), {**site, **headers})

    async def log_in(self, token: str, namespaces: str = "") -> int:
        status, _ = await self.post("/login", {"token": token, "namespaces": namespaces})
        return status

    async def _send(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> tuple[int, str]:
        sent = {
            "host": f"{self.host}:{self.port}",
            "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            **self.headers,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(
                method,
                URL(f"http://127.0.0.1:{self.port}{path}", encoded=True),
                data=body,
                headers=sent,
                allow_redirects=False,
            ) as answer,
        ):
            self.answer = answer
            for one in answer.headers.getall("Set-Cookie", ()):
                name, _, rest = one.partition("=")
                value = rest.partition(";")[0]
                self.cookies.pop(name, None)
                if value:
                    self.cookies[name] = value
            return answer.status, await answer.text()


@dataclass(frozen=True, slots=True)
class Shared:
    plane: Plane
    console: SharedConsole

    def browser(self) -> Browser:
        return Browser(self.console.port)


@asynccontextmanager
async def shared_console(
    directory: Path, *flags: str, login: str = "token", url: str = f"http://{NAME}:8267"
) -> AsyncIterator[Shared]:
    key = directory / "key"
    await asyncio.to_thread(key.write_text, "k" * 40)
    async with Plane(PlaneOptions(dir=directory / "plane", memory=True)) as plane:
        for crd in ray_crds():
            plane.app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
        args = parse([
            "console", "--login", login, "--listen", "127.0.0.1:0", "--url", url,
            "--cookie-key-file", str(key), "--kubeconfig", str(plane.kubeconfig), *flags,
        ])  # fmt: skip
        async with SharedConsole(args) as console:
            yield Shared(plane, console)


async def account(
    client: Client, name: str, verbs: Sequence[str], namespace: str = "", seconds: int = 600
) -> str:
    """The token of a ServiceAccount with these rights to Ray objects, Pods and Events; without a namespace, in
    all of them."""
    await client.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": name}})
    if not verbs:
        return await token_of(client, name, seconds)
    rules = [
        {"apiGroups": ["ray.io"], "resources": ["*"], "verbs": list(verbs)},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": list(READ)},
    ]
    await client.create(CLUSTER_ROLES, "", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    into = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    await client.create(into, namespace, binding)
    return await token_of(client, name, seconds)


async def token_of(client: Client, name: str, seconds: int = 600) -> str:
    asked: dict[str, Any] = {"spec": {"expirationSeconds": seconds}}
    answer = await client.create(
        SERVICE_ACCOUNTS, "default", asked, subresource=(name, "token"), into=dict
    )
    return str(answer["status"]["token"])


async def namespace(client: Client, name: str) -> None:
    await client.create(NAMESPACES, "", {"metadata": {"name": name}})
