"""What happens in a test as a story to read, kept as a golden file: who did what, and when, in virtual time.

The lines are ordered by the server's own revisions, so that the same run always reads the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manta.api.resources import Resource
from manta.kube.client import Client
from support.raycluster import NAMESPACE

Object = dict[str, Any]
Tell = Callable[[str, Object, Object], None]
"""Adds lines for an event: its type, the object before (empty if it is new), and after."""


@dataclass(kw_only=True)
class BaseStory:
    _lines: list[tuple[int, float, str, str]] = field(default_factory=list)
    _before: dict[tuple[str, str], Object] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    """What the story calls objects with generated names."""
    _start: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def happens(self, text: str) -> None:
        """Something that no object shows; the line comes after all others so far."""
        last = max((line[0] for line in self._lines), default=0)
        self._lines.append((last, self._now(), "fault", text))

    def text(self) -> str:
        lines = sorted(self._lines, key=lambda line: line[0])
        story = "".join(f"{_clock(at)}  {who:<9} {what}\n" for _, at, who, what in lines)
        for name, alias in sorted(self._names.items(), key=lambda item: -len(item[0])):
            story = story.replace(name, alias)
        return story

    async def _watch_all(self, client: Client, tell: Mapping[Resource, Tell], since: str) -> None:
        async with asyncio.TaskGroup() as group:
            for resource in tell:
                group.create_task(self._watch(client, resource, tell[resource], since))

    async def _watch(self, client: Client, resource: Resource, tell: Tell, version: str) -> None:
        while True:
            async for event in client.watch(resource, NAMESPACE, resource_version=version):
                version = event.resource_version or version
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    key = (resource.kind, event.object["metadata"]["name"])
                    tell(event.type, self._before.get(key, {}), event.object)
                    self._before[key] = event.object

    def _add(self, one: Object, who: str, what: str) -> None:
        line = (int(one["metadata"]["resourceVersion"]), self._now(), who, what)
        if line not in self._lines:
            self._lines.append(line)

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._start


def compare(directory: Path, name: str, story: BaseStory) -> None:
    """Compare a story with its golden file; `make golden` writes the file."""
    path, text = directory / f"{name}.txt", story.text()
    if os.environ.get("MANTA_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path} tells another story; `make golden` writes it again"


def summary(condition: Object | None) -> tuple[str, ...]:
    return tuple((condition or {}).get(key, "") for key in ("status", "reason", "message"))


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes):02}:{rest:04.1f}"
