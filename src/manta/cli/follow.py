"""Follow objects until they are Ready, saying what each of them waits for.

What counts as ready is each kind's own word: a condition, a state or a phase. What is waited for is
read from the object's own conditions and from its Pods, so that a person never has to ask why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_NODE_TYPE
from manta.api.resources import EVENTS, NODES, PODS, Resource
from manta.cli.progress import Progress
from manta.cli.workload_readiness import WORKLOADS, Verdict
from manta.kube.client import Client

READY_CONDITIONS = ("Ready", "RayClusterProvisioned", "Available", "Complete")
_NOT_LOOKED_AT = "its change has not been looked at yet"
WANTED = ("HeadPodReady", *READY_CONDITIONS)
TROUBLES = ("Blocked", "ReplicaFailure")
"""Conditions that are bad when they are True; what they say comes first."""


_LOOK_AGAIN = 0.25
"""Seconds between looks at Pods that must come back."""


def judge(kind: str, document: Mapping[str, Any]) -> Verdict:
    """Pure: the verdict on one object as the server shows it."""
    status = document.get("status") or {}
    if error := _reconcile_error(status):
        return Verdict(ready=False, why=error)
    match kind:
        case "RayJob":
            return _judge_job(status)
        case "RayCluster":
            return _judge_cluster(document, status)
        case "Pod":
            return _judge_pod(document)
        case "Deployment":
            return _judge_deployment(document, status)
        case "RayService":
            return _judge_conditions(status)
        case _ if kind in WORKLOADS:
            return WORKLOADS[kind](document)
        case _:
            return Verdict(ready=True)


def _reconcile_error(status: Mapping[str, Any]) -> str:
    """Why the operator's last reconcile of the object raised; empty: it did not."""
    conditions = status.get("conditions") or ()
    found = (one for one in conditions if one.get("type") == "ReconcileError")
    return next((one["message"] for one in found if one.get("status") == "True"), "")


def _judge_job(status: Mapping[str, Any]) -> Verdict:
    stage = status.get("jobDeploymentStatus", "")
    message = status.get("message") or status.get("reason") or f"stage {stage or 'New'}"
    if stage in ("Failed", "ValidationFailed"):
        return Verdict(ready=False, failed=True, why=message)
    return Verdict(ready=stage == "Complete", why=message)


def _judge_cluster(document: Mapping[str, Any], status: Mapping[str, Any]) -> Verdict:
    """`state` stays ready when it once was; what is ready now is told beside it."""
    spec = document.get("spec") or {}
    wanted = "suspended" if spec.get("suspend") else "ready"
    if status.get("state") != wanted:
        return Verdict(ready=False, why=_blocking_message(status))
    if wanted == "suspended":
        return Verdict(ready=True)
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    if conditions.get("HeadPodReady") == "False":
        return Verdict(ready=False, why=_blocking_message(status))
    ready, workers = status.get("readyWorkerReplicas", 0), _wanted_workers(spec, status)
    if ready < workers:
        return Verdict(ready=False, why=f"{ready} of {workers} workers are ready")
    return Verdict(ready=True)


def _wanted_workers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """By the spec as it is now: the status may be of before an edit."""
    from manta.api.ray.cluster import RayClusterSpec
    from manta.rules.scaling import desired_workers

    try:
        return desired_workers(msgspec.convert(spec, RayClusterSpec))
    except msgspec.ValidationError:  # what this version cannot read it does not judge
        return int(status.get("desiredWorkerReplicas", 0))


def _is_looked_at(document: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Is the status about the object as it is now?"""
    generation = (document.get("metadata") or {}).get("generation", 0)
    return bool(status.get("observedGeneration", generation) >= generation)


def _judge_conditions(status: Mapping[str, Any]) -> Verdict:
    for condition in status.get("conditions") or ():
        if condition["type"] in READY_CONDITIONS and condition["status"] == "True":
            return Verdict(ready=True)
    return Verdict(ready=False, why=_blocking_message(status))


def _judge_deployment(document: Mapping[str, Any], status: Mapping[str, Any]) -> Verdict:
    """Available by its newest template: what an older one does says nothing about this one."""
    if not _is_looked_at(document, status):
        return Verdict(ready=False, why=_NOT_LOOKED_AT)
    wanted = document.get("spec", {}).get("replicas", 1)
    updated = status.get("updatedReplicas", 0)
    if updated < wanted:
        message = _blocking_message(status)
        return Verdict(
            ready=False, why=f"{updated} of {wanted} Pods are of the new kind: {message}"
        )
    return _judge_conditions(status)


def _blocking_message(status: Mapping[str, Any]) -> str:
    conditions = status.get("conditions") or ()
    troubles = [one for one in conditions if one["type"] in TROUBLES and one["status"] == "True"]
    unmet = [one for one in conditions if one["type"] in WANTED and one["status"] != "True"]
    told = [one.get("message") or one.get("reason", "") for one in (*troubles, *unmet)]
    return next(
        (text for text in told if text), status.get("reason") or "waiting for the first reconcile"
    )


def _judge_pod(pod: Mapping[str, Any]) -> Verdict:
    status = pod.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True" or status.get("phase") == "Succeeded":
        return Verdict(ready=True, why=conditions.get("DnsUnavailable", {}).get("message", ""))
    return Verdict(ready=False, why=pod_waits_for(pod))


def pod_waits_for(pod: Mapping[str, Any]) -> str:
    """The nearest cause that keeps a Pod from being ready, in one line."""
    status = pod.get("status") or {}
    statuses = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    for container in statuses:
        state = container.get("state") or {}
        if waiting := state.get("waiting"):
            detail = waiting.get("message") or waiting.get("reason", "")
            last = (container.get("lastState") or {}).get("terminated")
            after = f" (after {_end(last)})" if last else ""
            return f"container {container['name']}: {detail}{after}"
        if (ended := state.get("terminated")) and ended.get("exitCode"):
            return f"container {container['name']}: {_end(ended)}"
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or "no node found yet")
    running = [
        c["name"] for c in statuses if "running" in (c.get("state") or {}) and not c.get("ready")
    ]
    if running:
        return f"container {running[0]} runs, its readiness probe has not passed yet"
    return f"phase {status.get('phase', 'Pending')}"


def _end(ended: Mapping[str, Any]) -> str:
    words = f"{ended.get('reason', 'Error')}, exit code {ended.get('exitCode')}"
    return f"{words}: {ended['message']}" if ended.get("message") else words


@dataclass(frozen=True, slots=True)
class Claim:
    """What the status of an object says of Pods: so many of these are ready."""

    labels: str
    pods: int


def claim(kind: str, document: Mapping[str, Any]) -> Claim | None:
    """Pure: what can be counted of an object that says that it is ready."""
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
    """Reports what is waited for, object by object and Pod by Pod."""

    def __init__(self, client: Client, progress: Progress) -> None:
        self._client = client
        self._progress = progress
        self._pulling: dict[str, str] = {}
        """By Pod: the image that its node brings now. The Pod's own status does not say it."""

    async def until_ready(self, followed: Sequence[Followed], timeout_seconds: float) -> bool:
        """True when all became ready in time. A failed object ends the wait at once."""
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
                if verdict.ready and (doubt := await self._doubt(followed, event.object)):
                    # Nobody need write the status again when its Pods are back: look again.
                    self._progress.report(str(followed), doubt)
                    await asyncio.sleep(_LOOK_AGAIN)
                    break
                self._report(str(followed), verdict)
                if verdict.ready or verdict.failed:
                    return verdict

    def _report(self, who: str, verdict: Verdict) -> None:
        if verdict.ready:
            self._progress.report(who, verdict.word, "ready")
        else:
            self._progress.report(who, verdict.why, "failed" if verdict.failed else "waiting")

    async def _doubt(self, followed: Followed, document: Mapping[str, Any]) -> str:
        """Why a status that says ready is not believed; empty if it is. It may speak of Pods that are not
        ready any more, as after a restart of everything, or be older than the first node."""
        claimed = claim(followed.resource.kind, document)
        if claimed is None:
            return ""
        if await self._ready_pods(followed.key.namespace, claimed.labels) < claimed.pods:
            return "its Pods of before are started again"
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
        """An image takes minutes, and only Events tell of it."""
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
