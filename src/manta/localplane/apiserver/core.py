"""What every operation of the server shares: the store, the registry, time and chance."""

from __future__ import annotations

import random as randomness
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from manta.api.times import format_time
from manta.localplane.apiserver.messages import HttpRequest, User
from manta.localplane.apiserver.negotiation import PLAIN, Answer
from manta.localplane.apiserver.registry import Registry
from manta.localplane.apiserver.routes import Route
from manta.localplane.apiserver.served import Served
from manta.localplane.store.objects import Record
from manta.localplane.store.store import Store

WARNING_CHARACTERS: Final = 4096
CUT_WARNING: Final = 256


@dataclass(slots=True)
class Core:
    store: Store
    registry: Registry
    clock: Callable[[], datetime]
    random: randomness.Random

    def now(self) -> datetime:
        return self.clock().astimezone(UTC)

    def now_text(self) -> str:
        return format_time(self.now())


@dataclass(slots=True)
class Call:
    """One request on its way through the server."""

    request: HttpRequest
    route: Route
    served: Served
    verb: str
    answer: Answer = PLAIN
    warnings: dict[str, None] = field(default_factory=dict)
    """Texts in order, each once."""

    @property
    def user(self) -> User:
        return self.request.user

    def warn(self, text: str) -> None:
        if text:
            self.warnings[text] = None

    def headers(self) -> tuple[tuple[str, str], ...]:
        return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in _bounded(self.warnings))


def _bounded(warnings: Collection[str]) -> Iterator[str]:
    """The warnings that are sent: cut, and then left out, beyond a size, as in kube-apiserver."""
    total = sum(map(len, warnings))
    left = WARNING_CHARACTERS
    for text in warnings:
        shown = text if total <= WARNING_CHARACTERS else text[:CUT_WARNING]
        if len(shown) > left:
            return
        left -= len(shown)
        yield shown


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(one if one.isprintable() else " " for one in escaped)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write has come to. `record` may be unsaved (a dry run) or already gone."""

    record: Record
    created: bool = False
    removed: bool = False
