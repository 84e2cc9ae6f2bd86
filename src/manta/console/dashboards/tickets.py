"""Tickets: they lead a browser from the console to the origin of one dashboard, once, within a minute."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

import msgspec

from manta.api.meta import Key
from manta.console.sessions import Session

SECONDS: Final = 60.0
MAX_TICKETS: Final = 1000


class Opened(msgspec.Struct, frozen=True, array_like=True):
    """Who opened the dashboard of which cluster: the content of that origin's cookie."""

    session: Session
    namespace: str
    name: str
    service: str
    """The head Service."""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class Tickets:
    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[float, Opened]] = OrderedDict()

    def new(self, opened: Opened, now: float) -> str:
        made = secrets.token_urlsafe(32)
        self._held[made] = (now + SECONDS, opened)
        while len(self._held) > MAX_TICKETS:
            self._held.popitem(last=False)
        return made

    def redeem(self, ticket: str, now: float) -> Opened | None:
        """What the ticket is for; None if it was used, is over, or never was."""
        expires, opened = self._held.pop(ticket, (0.0, None))
        return opened if expires > now else None
