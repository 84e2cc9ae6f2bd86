"""Who may read which session.

On Kubernetes the caller's own token decides: a TokenReview says who it is, and a SubjectAccessReview whether
that user may `get` the owner of the session. A namespace that is gone has no rules, so there a named group
decides. On a laptop there is one owner: a browser comes in by a link that can be used once.
"""

from __future__ import annotations

import hmac
import secrets
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from manta.api.meta import Key
from manta.api.resources import NAMESPACES, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from manta.history.layout import SessionKey
from manta.httpserver.messages import User
from manta.kube.client import Client
from manta.kube.errors import NotFound

_CACHE_SECONDS: Final = 60.0
_MAX_CACHED_ANSWERS: Final = 10_000
_MAX_TOKEN_CHARACTERS: Final = 16_384
_LINK_SECONDS: Final = 86_400.0
_CONSOLE_LINK_SECONDS: Final = 60.0
_MAX_LINKS: Final = 100
_PLURALS: Final = {"raycluster": "rayclusters", "rayjob": "rayjobs", "rayservice": "rayservices"}


class Access(ABC):
    refused = "This token is not valid."
    """Sent to a browser whose login fails."""

    @abstractmethod
    async def user(self, token: str) -> User | None:
        """The user of this bearer token; None if it is not valid."""

    @abstractmethod
    async def may_read(self, user: User, session: SessionKey) -> bool: ...

    async def login(self, token: str) -> str | None:
        """The bearer token that a browser with this token may use from now on; None: it may not."""
        return token if await self.user(token) is not None else None

    async def new_link(self, token: str) -> str | None:
        """The token of a new link for the browser, for the bearer of this token; None: there are none."""
        return None


class OwnerAccess(Access):
    """The owner of the plane may read everything. Links for the browser hold a token that logs in once."""

    refused = (
        "This link was used before, or is older than a day. <code>manta history open</code> prints a new one;"
        " <code>manta history serve</code> in a terminal has printed it already."
    )

    def __init__(
        self,
        on_login: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_login` is called when a link was used."""
        self.token = secrets.token_urlsafe(32)
        """The bearer token of commands; never in a link."""
        self._on_login = on_login
        self._clock = clock
        self._links: OrderedDict[str, float] = OrderedDict()

    async def user(self, token: str) -> User | None:
        return User("owner of the plane") if self._is_owner(token) else None

    async def may_read(self, user: User, session: SessionKey) -> bool:
        return True

    def _is_owner(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    async def login(self, token: str) -> str | None:
        since = self._links.pop(token, None)
        if since is None or self._clock() - since > _LINK_SECONDS:
            return None
        self._on_login()
        return self.token

    async def new_link(self, token: str) -> str | None:
        return self.create_link() if self._is_owner(token) else None

    def create_link(self) -> str:
        made = secrets.token_urlsafe(32)
        self._links[made] = self._clock()
        while len(self._links) > _MAX_LINKS:
            self._links.popitem(last=False)
        return made


class KubernetesAccess(Access):
    def __init__(self, client: Client, group: str = "") -> None:
        """`group` may read the sessions of namespaces that are gone; empty: nobody may."""
        self._client = client
        self._group = group
        self._links: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """Bearer tokens by the link of a console, which its user follows at once."""
        self._answers: OrderedDict[tuple[Any, ...], tuple[float, Any]] = OrderedDict()

    async def user(self, token: str) -> User | None:
        if not token or len(token) > _MAX_TOKEN_CHARACTERS:
            return None
        known, user = self._known(("token", token))
        if not known:
            user = await self._review_token(token)
            self._remember(("token", token), user)
        found: User | None = user
        return found

    async def login(self, token: str) -> str | None:
        since, bearer = self._links.pop(token, (0.0, ""))
        if bearer and time.monotonic() - since > _CONSOLE_LINK_SECONDS:
            return None
        return await super().login(bearer or token)

    async def new_link(self, token: str) -> str | None:
        if await self.user(token) is None:
            return None
        made = secrets.token_urlsafe(32)
        self._links[made] = (time.monotonic(), token)
        while len(self._links) > _MAX_LINKS:
            self._links.popitem(last=False)
        return made

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
            }
        }
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, "", review, into=dict[str, Any])
        status = answer.get("status") or {}
        return bool(status.get("allowed"))

    # ── answers of the last minute ───────────────────────────────────────────────────────
    def _known(self, question: tuple[Any, ...]) -> tuple[bool, Any]:
        at, answer = self._answers.get(question, (0.0, None))
        fresh = question in self._answers and time.monotonic() - at < _CACHE_SECONDS
        return fresh, answer

    def _remember(self, question: tuple[Any, ...], answer: Any) -> None:
        self._answers[question] = (time.monotonic(), answer)
        while len(self._answers) > _MAX_CACHED_ANSWERS:
            self._answers.popitem(last=False)
