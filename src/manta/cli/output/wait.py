"""Wait until objects are ready, and report what each object and each of its Pods waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_NODE_TYPE
from manta.api.resources import EVENTS, NODES, PODS, Resource
from manta.cli.output.progress import Progress
from manta.client.readiness import judge
from manta.client.workload_readiness import Verdict
from manta.kube.client import Client

_RECHECK_SECONDS = 0.25
"""Pause between checks of Pods that must become ready again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The number of ready Pods that the status of an object reports, and how to select them."""

    labels: str
    pods: int


def claim(kind: str, document: Mapping[str, Any]) -> Claim | None:
    """The Pods that an object reports as ready; None if it reports none. Pure."""
    status = document.get("status") or {}
    match kind:
        case "RayCluster" if status.get("state") == "ready":
            name = document["metadata"]["name"]
            return Claim(f"{LABEL_CLUSTER}={name}", 1 + status.get("readyWorkerReplicas", 0))
        case "RayService":
            name = (status.get("activeServiceStatus") or {}).get("rayClusterName", "")
            return Claim(f"{LABEL_CLUSTER}={name},{LABEL_NODE_TYPE}=head", 1) if name else None
        case "Deployment" | "ReplicaSet" | "StatefulSet":
            return _selected(document, status.get("readyReplicas", 0))
        case "DaemonSet":
            return _selected(document, status.get("numberReady", 0))
        case _:
            return None


def _selected(document: Mapping[str, Any], pods: int) -> Claim | None:
    labels = document["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    return Claim(selector, pods) if selector else None


@dataclass(frozen=True, slots=True)
class Followed:
    resource: Resource
    key: Key

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.key.name}"


class Follower:
    """Waits for objects, and reports their progress and that of their Pods."""

    def __init__(self, client: Client, progress: Progress) -> None:
        self._client = client
        self._progress = progress
        self._pulling: dict[str, str] = {}
        """By Pod: the image that is being pulled. The status of the Pod does not show it."""

    async def until_ready(self, followed: Sequence[Followed], timeout_seconds: float) -> bool:
        """True if all become ready in time. A failed object ends the wait at once."""
        namespaces = {one.key.namespace for one in followed if one.key.namespace}
        watchers = [asyncio.create_task(self._remind())]
        for name in namespaces:
            watchers.append(asyncio.create_task(self._report_pods(name)))
            watchers.append(asyncio.create_task(self._report_pulls(name)))
        try:
            async with asyncio.timeout(timeout_seconds):
                verdicts = await asyncio.gather(*(self._follow_one(f) for f in followed))
        except TimeoutError:
            words = f"not everything was ready within {timeout_seconds:.0f} s"
            self._progress.report("manta", words, "failed")
            return False
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        return all(verdict.ready for verdict in verdicts)

    async def _follow_one(self, followed: Followed) -> Verdict:
        while True:
            watch = self._client.watch(
                followed.resource,
                followed.key.namespace,
                into=dict,
                fields=f"metadata.name={followed.key.name}",
            )
            async for event in watch:
                if event.type not in ("ADDED", "MODIFIED"):
                    continue
                verdict = judge(followed.resource.kind, event.object)
                if verdict.ready and (why := await self._outdated(followed, event.object)):
                    # The status need not change when its Pods are ready again: check again.
                    self._progress.report(str(followed), why)
                    await asyncio.sleep(_RECHECK_SECONDS)
                    break
                self._report(str(followed), verdict)
                if verdict.ready or verdict.failed:
                    return verdict

    def _report(self, who: str, verdict: Verdict) -> None:
        if verdict.ready:
            self._progress.report(who, verdict.word, "ready")
        else:
            self._progress.report(who, verdict.why, "failed" if verdict.failed else "waiting")

    async def _outdated(self, followed: Followed, document: Mapping[str, Any]) -> str:
        """Why an object that reports ready is not ready; empty if it is.

        Its status may be older than a restart of the plane, or than the first node.
        """
        claimed = claim(followed.resource.kind, document)
        if claimed is None:
            return ""
        if await self._ready_pods(followed.key.namespace, claimed.labels) < claimed.pods:
            return "its Pods are being restarted"
        if followed.resource.kind == "DaemonSet" and not claimed.pods:
            nodes = (await self._client.list(NODES, "", into=dict)).items
            return "" if nodes else "no node has registered yet"
        return ""

    async def _ready_pods(self, namespace: str, labels: str) -> int:
        pods = (await self._client.list(PODS, namespace, into=dict, labels=labels)).items
        return sum(judge("Pod", pod).ready for pod in pods)

    async def _report_pods(self, namespace: str) -> None:
        while True:
            async for event in self._client.watch(PODS, namespace, into=dict):
                if event.type == "DELETED":
                    self._progress.forget(f"pod/{event.object['metadata']['name']}")
                elif event.type in ("ADDED", "MODIFIED"):
                    name = event.object["metadata"]["name"]
                    self._report(f"pod/{name}", judge("Pod", event.object))

    async def _report_pulls(self, namespace: str) -> None:
        """Report image pulls, which only Events show."""
        while True:
            async for event in self._client.watch(EVENTS, namespace, into=dict):
                about = event.object.get("regarding") or {}
                if event.type not in ("ADDED", "MODIFIED") or about.get("kind") != "Pod":
                    continue
                reason, who = event.object.get("reason"), f"pod/{about.get('name', '')}"
                if reason == "Pulling":
                    self._pulling[who] = event.object.get("note") or "Pulling its image"
                    self._progress.report(who, self._pulling[who])
                elif reason == "Pulled":
                    self._pulling.pop(who, None)

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._progress.remind()
