"""Two tenants on one embedded API server, for tests of what one may do to the other.

`alice` has the role `edit` in team-a, `amy` the role `admin` there, `victor` only `view`. team-b and
kube-system hold what they must not get at.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

from manta.httpserver.messages import HttpRequest, User
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.certificates import Authority
from manta.localplane.store.store import Store

START = datetime(2026, 11, 16, 8, tzinfo=UTC)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OWN = "/api/v1/namespaces/team-a"
OTHER = "/api/v1/namespaces/team-b"
SYSTEM = "/api/v1/namespaces/kube-system"


def person(name: str) -> User:
    return User(name, ("system:authenticated",))


ALICE, AMY, VICTOR = person("alice"), person("amy"), person("victor")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else str(self.body)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, as a test table writes it."""

    method: str
    path: str
    body: Mapping[str, Any] | list[Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def app_of(directory: Path, now: Any = None) -> App:
    authority = Authority(directory / "pki", START)
    app = App(
        Store(),
        clock=now or (lambda: START),
        random=random.Random(1),
        static_tokens={"admin-token": ADMIN},
        token_key=authority.token_key(),
    )
    bootstrap(app)
    return app


class Tenants:
    def __init__(self, directory: Path) -> None:
        self.now = START
        self.app = app_of(directory, lambda: self.now)

    @classmethod
    def of(cls, app: App) -> Tenants:
        """Requests to a server that is there already, without the tenants."""
        one = cls.__new__(cls)
        one.app = app
        return one

    async def ask(self, ask: Ask, user: User = ADMIN) -> Answer:
        path, _, query = ask.path.partition("?")
        body = b"" if ask.body is None else json.dumps(ask.body).encode()
        headers = {"content-type": _media(ask), "accept": "application/json"} | dict(ask.headers)
        pairs = tuple(parse_qsl(query, keep_blank_values=True))
        request = HttpRequest(ask.method, unquote(path), pairs, headers, body, user)
        answer = await self.app.handle(request)
        warnings = tuple(value for name, value in answer.headers if name == "Warning")
        if not isinstance(answer.body, bytes):
            await cast("AsyncGenerator[bytes]", answer.body).aclose()
            return Answer(answer.status, {}, warnings)
        try:
            return Answer(answer.status, json.loads(answer.body or b"{}"), warnings)
        except ValueError:
            return Answer(answer.status, answer.body.decode(), warnings)

    async def create(self, path: str, body: Mapping[str, Any], user: User = ADMIN) -> Any:
        answer = await self.ask(Ask("POST", path, body), user)
        assert answer.status == 201, answer
        return answer.body

    async def bind(self, name: str, role: str, user: User, namespace: str = "team-a") -> None:
        await self.create(f"{RBAC}/namespaces/{namespace}/rolebindings", binding(name, role, user))

    async def settle(self) -> None:
        """Everything that the tests talk about."""
        for namespace in ("team-a", "team-b"):
            await self.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            base = f"/api/v1/namespaces/{namespace}"
            for account in ("default", "robot"):
                await self.create(f"{base}/serviceaccounts", named(account))
            await self.create(f"{base}/secrets", named("password") | {"stringData": {"p": "x"}})
            await self.create(f"{base}/pods", a_pod("web"))
            await self.create(
                f"{base}/services", named("web") | {"spec": {"ports": [{"port": 80}]}}
            )
        await self.create(f"{SYSTEM}/serviceaccounts", named("root"))
        await self.create("/api/v1/nodes", named("node-1"))
        for user, role in ((ALICE, "edit"), (AMY, "admin"), (VICTOR, "view")):
            await self.bind(f"{user.name}-{role}", role, user)


def _media(ask: Ask) -> str:
    if ask.method != "PATCH":
        return "application/json"
    return f"application/{'json' if isinstance(ask.body, list) else 'merge'}-patch+json"


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    return named(name) | {"spec": {"containers": [{"name": "c", "image": "i"}]} | spec}


def binding(name: str, role: str, user: User, kind: str = "ClusterRole") -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return named(name) | {
        "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user.name}],
    }
