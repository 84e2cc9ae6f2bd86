"""The objects of a plane by watches, for runs of an hour.

`manta get` is a process of 0.3 s of CPU: asked twice a second, it takes from Ray what it measures. And a watch
sees every change, also those between two questions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.conftest import Machine
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.resources import PODS, SERVICES, Resource
from manta.api.selectors import parse_label_selector
from manta.client.watch import watch_objects
from manta.kube.config import load
from manta.kube.connect import connect

Json = dict[str, Any]
KINDS = {
    "pods": PODS,
    "pod": PODS,
    "svc": SERVICES,
    "raycluster": RAY_CLUSTERS,
    "rayclusters": RAY_CLUSTERS,
    "rayservice": RAY_SERVICES,
}


@dataclass
class Mirror:
    """What the API server has, by kind and name."""

    kubeconfig: Path
    namespace: str = "default"
    objects: dict[Resource, dict[str, Json]] = field(default_factory=dict)
    watchers: list[Callable[[], None]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    error: BaseException | None = None

    async def run(self, begun: threading.Event, ended: threading.Event) -> None:
        client = await connect(load(self.kubeconfig))
        self.objects = {kind: {} for kind in KINDS.values()}
        follow = [asyncio.create_task(self._follow(client, kind)) for kind in self.objects]
        await asyncio.sleep(1)  # the first lists
        begun.set()
        try:
            while not ended.is_set():
                done, _ = await asyncio.wait(follow, timeout=0.5)
                if done:
                    self.error = next(iter(done)).exception()
                    return
        finally:
            for one in follow:
                one.cancel()
            await asyncio.gather(*follow, return_exceptions=True)
            await client.close()

    async def _follow(self, client: Any, kind: Resource) -> None:
        async for change, found in watch_objects(client, kind, Key(self.namespace, "")):
            with self.lock:
                known, name = self.objects[kind], found["metadata"]["name"]
                if change != "DELETED":
                    known[name] = found
                elif known.get(name, found)["metadata"]["uid"] == found["metadata"]["uid"]:
                    known.pop(name, None)
                for look in self.watchers:
                    look()

    def all(self, kind: Resource) -> list[Json]:
        if self.error is not None:
            raise AssertionError("the watch ended") from self.error
        with self.lock:
            return list(self.objects[kind].values())

    @contextmanager
    def watched_by(self, look: Callable[[], None]) -> Iterator[None]:
        """`look` is called after each change, from now on until the end of the block."""
        with self.lock:
            self.watchers.append(look)
            look()
        try:
            yield
        finally:
            with self.lock:
                self.watchers.remove(look)


@dataclass(frozen=True)
class WatchedMachine(Machine):
    """A machine that answers `get` and `list` from a mirror."""

    mirror: Mirror = field(default_factory=lambda: Mirror(Path()))

    def get(self, kind: str, name: str) -> Json:
        if kind not in KINDS:
            return super().get(kind, name)
        for found in self.mirror.all(KINDS[kind]):
            if found["metadata"]["name"] == name:
                return found
        raise AssertionError(f"no {kind} {name}")

    def has(self, kind: str, name: str) -> bool:
        return any(one["metadata"]["name"] == name for one in self.mirror.all(KINDS[kind]))

    def list(self, kind: str, labels: str = "") -> list[Json]:
        if kind not in KINDS:
            return super().list(kind, labels)
        selected = parse_label_selector(labels)
        found = self.mirror.all(KINDS[kind])
        return [one for one in found if selected.matches(one["metadata"].get("labels") or {})]


@contextmanager
def mirrored(directory: Path) -> Iterator[WatchedMachine]:
    """The machine of a plane that runs in this directory, with its mirror."""
    mirror = Mirror(directory / "kubeconfig")
    begun, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(mirror.run(begun, ended)), daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield WatchedMachine(directory, mirror=mirror)
    finally:
        ended.set()
        thread.join()
