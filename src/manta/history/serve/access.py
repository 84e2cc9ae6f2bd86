"""Who may read which session.

On Kubernetes the caller's own token decides: a TokenReview says who it is, and a SubjectAccessReview whether
that user may `get` the owner of the session. A namespace that is gone has no rules, so there a named group
decides. On a laptop there is one token, made at the start.
"""

from __future__ import annotations

import hmac
import secrets
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any, Final

from manta.api.meta import Key
from manta.api.resources import NAMESPACES, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from manta.history.layout import SessionKey
from manta.httpserver.messages import User
from manta.kube.client import Client
from manta.kube.errors import NotFound

_REMEMBERED: Final = 60.0
_MAX_ANSWERS: Final = 10_000
_MAX_TOKEN: Final = 16_384
_PLURALS: Final = {"raycluster": "rayclusters", "rayjob": "rayjobs", "rayservice": "rayservices"}


class Access(ABC):
    @abstractmethod
    async def user(self, token: str) -> User | None:
        """The user of this token; None if the token is not valid."""

    @abstractmethod
    async def may_read(self, user: User, session: SessionKey) -> bool: ...


class OneToken(Access):
    """Whoever has the token may read everything."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)

    async def user(self, token: str) -> User | None:
        same = hmac.compare_digest(token.encode(), self.token.encode())
        return User("owner of the plane") if same else None

    async def may_read(self, user: User, session: SessionKey) -> bool:
        return True


class KubernetesAccess(Access):
    def __init__(self, client: Client, group: str = "") -> None:
        """`group` may read the sessions of namespaces that are gone; empty: nobody may."""
        self._client = client
        self._group = group
        self._answers: OrderedDict[tuple[Any, ...], tuple[float, Any]] = OrderedDict()

    async def user(self, token: str) -> User | None:
        if not token or len(token) > _MAX_TOKEN:
            return None
        known, user = self._known(("token", token))
        if not known:
            user = await self._review_token(token)
            self._remember(("token", token), user)
        found: User | None = user
        return found

    async def _review_token(self, token: str) -> User | None:
        answer = await self._client.create(
            TOKEN_REVIEWS, "", {"spec": {"token": token}}, into=dict[str, Any]
        )
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            return None
        who = status.get("user") or {}
        extra = {name: tuple(values) for name, values in (who.get("extra") or {}).items()}
        return User(
            who.get("username", ""), tuple(who.get("groups") or ()), who.get("uid", ""), extra
        )

    async def may_read(self, user: User, session: SessionKey) -> bool:
        return await self._allowed(
            user, session.namespace, _PLURALS[session.kind], "get", session.name
        )

    async def _allowed(
        self, user: User, namespace: str, resource: str, verb: str, name: str
    ) -> bool:
        question = (user.name, user.groups, namespace, resource, verb, name)
        known, allowed = self._known(question)
        if not known:
            if await self._namespace_exists(namespace):
                allowed = await self._review_access(user, namespace, resource, verb, name)
            else:
                allowed = bool(self._group) and self._group in user.groups
            self._remember(question, allowed)
        return bool(allowed)

    async def _namespace_exists(self, namespace: str) -> bool:
        known, exists = self._known(("namespace", namespace))
        if not known:
            try:
                await self._client.get(NAMESPACES, Key("", namespace))
                exists = True
            except NotFound:
                exists = False
            self._remember(("namespace", namespace), exists)
        return bool(exists)

    async def _review_access(
        self, user: User, namespace: str, resource: str, verb: str, name: str
    ) -> bool:
        attributes = {
            "group": "ray.io", "resource": resource, "verb": verb, "namespace": namespace, "name": name,
        }  # fmt: skip
        review = {
            "spec": {
                "user": user.name,
                "groups": list(user.groups),
                "uid": user.uid,
                "extra": {key: list(values) for key, values in user.extra.items()},
                "resourceAttributes": attributes,
            },
        }
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, "", review, into=dict[str, Any])
        status = answer.get("status") or {}
        return bool(status.get("allowed"))

    # ── answers of the last minute ───────────────────────────────────────────────────────
    def _known(self, question: tuple[Any, ...]) -> tuple[bool, Any]:
        at, answer = self._answers.get(question, (0.0, None))
        fresh = question in self._answers and time.monotonic() - at < _REMEMBERED
        return fresh, answer

    def _remember(self, question: tuple[Any, ...], answer: Any) -> None:
        self._answers[question] = (time.monotonic(), answer)
        while len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)
