"""Asks the history server for one visitor: which sessions are kept, and a link that opens one.

With the visitor's own token, so that the history server decides what the visitor may read. On a plane of `manta up`
the visitor is its owner, and the server's secret is the token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from manta.console.fetch import MAX_BYTES, Fetch
from manta.kube.errors import MantaError

_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_LIST: Final = "/history/"
_LINK: Final = "/history/link"


class HistoryError(MantaError):
    """The history server cannot be asked."""


class Kept(msgspec.Struct, frozen=True):
    """One session that is kept."""

    namespace: str
    kind: str
    name: str
    session: str

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}/{self.session}"


class KeptSessions(msgspec.Struct, frozen=True):
    sessions: tuple[Kept, ...] = ()
    more: bool = False
    """Whether there are more than these."""


class _Link(msgspec.Struct, frozen=True):
    path: str


Where = Callable[[str], tuple[str, str]]
"""The address of the history server and the token for it, from the visitor's token. Raises HistoryError."""


class History:
    def __init__(self, fetch: Fetch, where: Where) -> None:
        self._fetch = fetch
        self._where = where

    async def sessions(self, token: str, filters: dict[str, str]) -> KeptSessions:
        """Raises HistoryError, Unauthorized, Unreachable."""
        base, bearer = self._where(token)
        query = urlencode({**filters, "format": "json"})
        body = await self._asked("GET", f"{base}{_LIST}?{query}", bearer)
        return _decoded(body, KeptSessions)

    async def link(self, token: str, path: str) -> str:
        """An address that opens a session in a browser, once. Raises as `sessions` does."""
        base, bearer = self._where(token)
        found = _decoded(await self._asked("POST", f"{base}{_LINK}", bearer), _Link)
        if not found.path.startswith(_LIST):
            raise HistoryError("the history server answered with another address")
        return f"{base}{found.path}&{urlencode({'to': path})}"

    async def _asked(self, method: str, url: str, bearer: str) -> bytes:
        headers = {"authorization": f"Bearer {bearer}", "accept": "application/json"}
        body = b"" if method == "POST" else None
        answer = await self._fetch(method, url, headers, body)
        if answer.status == 401:
            raise HistoryError("the history server does not accept this login")
        if answer.status != 200 or len(answer.body) > MAX_BYTES:
            raise HistoryError(f"the history server answered {answer.status}")
        return answer.body


def token_needed(token: str) -> str:
    """Raises HistoryError for a visitor without a token: one who is impersonated."""
    if not token:
        raise HistoryError(
            "the history needs a login with a token, which this console does not have"
        )
    return token


def _decoded(body: bytes, into: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.MsgspecError as error:
        raise HistoryError(f"the history server's answer is not understood: {error}") from error
