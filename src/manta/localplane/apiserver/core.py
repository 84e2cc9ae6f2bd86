"""What every operation of the server shares: the store, the registry, time and chance."""

from __future__ import annotations

import random as randomness
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from manta.api.times import format_time
from manta.localplane.apiserver.messages import HttpRequest, User
from manta.localplane.apiserver.negotiation import PLAIN, Answer
from manta.localplane.apiserver.registry import Registry
from manta.localplane.apiserver.routes import Route
from manta.localplane.apiserver.served import Served
from manta.localplane.store.objects import Record
from manta.localplane.store.store import Store


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
    warnings: list[str] = field(default_factory=list)

    @property
    def user(self) -> User:
        return self.request.user

    def warn(self, text: str) -> None:
        if text and text not in self.warnings:
            self.warnings.append(text)

    def headers(self) -> tuple[tuple[str, str], ...]:
        return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in self.warnings)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(one if one.isprintable() else " " for one in escaped)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write has come to. `record` may be unsaved (a dry run) or already gone."""

    record: Record
    created: bool = False
    removed: bool = False
