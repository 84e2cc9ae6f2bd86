"""Tells a rolling update as a story: who did what, and when, in virtual time.

The lines are ordered by the server's own revisions. Pods are called by their group and the order of their
making: `workers-1`, `head-2`; revisions by their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CONTROLLER_REVISIONS, PODS, Resource
from manta.kube.client import Client
from support.raycluster import NAMESPACE
from support.virtual import running

Object = dict[str, Any]


@dataclass
class Story:
    client: Client
    _lines: list[tuple[int, float, str, str]] = field(default_factory=list)
    _before: dict[tuple[str, str], Object] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _start: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    async def user(self, text: str, body: Object, name: str = "demo") -> None:
        """The user patches the RayCluster; the line has the revision of that write."""
        key = Key(NAMESPACE, name)
        written = await self.client.patch(RAY_CLUSTERS, key, body, into=dict)
        self._add(written, "user", text)

    def happens(self, text: str) -> None:
        """Something that no object shows; the line comes after all others so far."""
        last = max((line[0] for line in self._lines), default=0)
        self._lines.append((last, self._now(), "fault", text))

    async def run(self, since: str) -> None:
        async with asyncio.TaskGroup() as group:
            for resource in (RAY_CLUSTERS, PODS, CONTROLLER_REVISIONS):
                group.create_task(self._watch(resource, since))

    async def _watch(self, resource: Resource, version: str) -> None:
        tell = {RAY_CLUSTERS: self._cluster, PODS: self._pod, CONTROLLER_REVISIONS: self._revision}
        while True:
            changes = self.client.watch(resource, NAMESPACE, resource_version=version)
            async for event in changes:
                version = event.resource_version or version
                if event.type in ("ADDED", "MODIFIED", "DELETED"):
                    key = (resource.kind, event.object["metadata"]["name"])
                    tell[resource](event.type, self._before.get(key, {}), event.object)
                    self._before[key] = event.object

    def text(self) -> str:
        lines = sorted(self._lines, key=lambda line: line[0])
        text = [f"{_clock(at)}  {who:<9} {what}" for _, at, who, what in lines]
        story = "\n".join(text) + "\n"
        for name, alias in sorted(self._names.items(), key=lambda item: -len(item[0])):
            story = story.replace(name, alias)
        return story

    # ── what each kind has to tell ───────────────────────────────────────────────────────

    def _cluster(self, type_: str, old: Object, new: Object) -> None:
        if type_ == "ADDED":
            self._add(new, "user", f"creates RayCluster {new['metadata']['name']}")
            return
        before, after = _rolling(old), _rolling(new)
        if after and _essence(before) != _essence(after):
            self._add(new, "status", f"{after['reason']}: {after['message']}")

    def _pod(self, type_: str, old: Object, new: Object) -> None:
        meta = new["metadata"]
        name = self._alias(meta)
        if type_ == "ADDED":
            image = new["spec"]["containers"][0]["image"]
            self._add(new, "operator", f"creates {name} with {image}")
        elif type_ == "DELETED":
            self._add(new, "kubelet", f"{name} is gone")
        elif meta.get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
            self._add(new, "operator", f"deletes {name}")
        elif _is_ready(new) and not _is_ready(old):
            self._add(new, "kubelet", f"{name} is ready")

    def _revision(self, type_: str, old: Object, new: Object) -> None:
        meta, was = new["metadata"], (old.get("metadata") or {})
        self._names[meta["name"]] = f"revision {new['revision']}"
        notes, had = meta.get("annotations") or {}, was.get("annotations") or {}
        if type_ == "ADDED":
            self._add(new, "operator", f"records revision {new['revision']}")
        elif type_ == "MODIFIED" and old["revision"] != new["revision"]:
            self._add(new, "operator", f"records revision {old['revision']} as {new['revision']}")
        for note, words in (
            (names.ANNOTATION_ROLLOUT_COMPLETED, "complete"),
            (names.ANNOTATION_ROLLOUT_FAILED, "failed"),
        ):
            if note in notes and note not in had:
                self._add(new, "operator", f"notes that revision {new['revision']} is {words}")

    def _alias(self, meta: Object) -> str:
        group = meta["labels"][names.LABEL_GROUP].removesuffix("group")
        if meta["name"] not in self._names:
            self._counts[group] = self._counts.get(group, 0) + 1
            self._names[meta["name"]] = f"{group}-{self._counts[group]}"
        return str(meta["name"])

    def _add(self, one: Object, who: str, what: str) -> None:
        self._lines.append((int(one["metadata"]["resourceVersion"]), self._now(), who, what))

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._start


def _rolling(cluster: Object) -> Object:
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "RollingUpdate"), {})


def _essence(condition: Object) -> tuple[str, ...]:
    return tuple(condition.get(key, "") for key in ("status", "reason", "message"))


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes):02}:{rest:04.1f}"


@asynccontextmanager
async def recorded(client: Client) -> AsyncIterator[Story]:
    story = Story(client)
    since = (await client.list(RAY_CLUSTERS, NAMESPACE)).resource_version
    async with running(story.run(since)):
        yield story
