"""Tells a rolling update as a story: who did what, and when, in virtual time.

Pods are called by their group and the order of their
making: `workers-1`, `head-2`; revisions by their number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CONTROLLER_REVISIONS, PODS
from manta.kube.client import Client
from support.raycluster import NAMESPACE
from support.story import BaseStory, Object, is_ready, summary
from support.virtual import running


@dataclass
class Story(BaseStory):
    client: Client
    _counts: dict[str, int] = field(default_factory=dict)

    async def user(self, text: str, body: Object, name: str = "demo") -> None:
        """The user patches the RayCluster; the line has the revision of that write."""
        key = Key(NAMESPACE, name)
        written = await self.client.patch(RAY_CLUSTERS, key, body, into=dict)
        self._add(written, "user", text)

    async def run(self, since: str) -> None:
        tell = {RAY_CLUSTERS: self._cluster, PODS: self._pod, CONTROLLER_REVISIONS: self._revision}
        await self._watch_all(self.client, tell, since)

    # ── what each kind has to tell ───────────────────────────────────────────────────────

    def _cluster(self, type_: str, old: Object, new: Object) -> None:
        if type_ == "ADDED":
            self._add(new, "user", f"creates RayCluster {new['metadata']['name']}")
            return
        before, after = _rolling(old), _rolling(new)
        if after and summary(before) != summary(after):
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
        elif is_ready(new) and not is_ready(old):
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


def _rolling(cluster: Object) -> Object:
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "RollingUpdate"), {})


@asynccontextmanager
async def recorded(client: Client) -> AsyncIterator[Story]:
    story = Story(client)
    since = (await client.list(RAY_CLUSTERS, NAMESPACE)).resource_version
    async with running(story.run(since)):
        yield story
