"""What all handlers share: the store, the registry, the clock and the random numbers."""

from __future__ import annotations

import random as randomness
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from manta.api.times import format_time
from manta.httpserver.messages import HttpRequest, User
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.negotiation import PLAIN, Answer
from manta.localplane.apiserver.registry import Registry
from manta.localplane.apiserver.routes import Route
from manta.localplane.store.objects import Record, key_of
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
    """One request about a resource."""

    request: HttpRequest
    route: Route
    resource: ApiResource
    verb: str
    answer: Answer = PLAIN
    warnings: dict[str, None] = field(default_factory=dict)
    """The texts of the Warning headers, in order and without duplicates."""

    @property
    def key(self) -> str:
        """The key of the object that the path names."""
        return key_of(self.route.namespace, self.route.name)

    @property
    def user(self) -> User:
        return self.request.user

    def warn(self, text: str) -> None:
        if text:
            self.warnings[text] = None

    def headers(self) -> tuple[tuple[str, str], ...]:
        return tuple(("Warning", f'299 - "{_quoted(text)}"') for text in _bounded(self.warnings))


def _bounded(warnings: Collection[str]) -> Iterator[str]:
    """The warnings that are sent: shortened, then dropped, beyond a size, as in kube-apiserver."""
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
    """The result of a write. `record` may be unsaved (a dry run) or already removed."""

    record: Record
    created: bool = False
    removed: bool = False
