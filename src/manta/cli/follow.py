"""Follow objects until they are Ready, saying what each of them waits for.

What counts as ready is each kind's own word: a condition, a state or a phase. What is waited for is
read from the object's own conditions and from its Pods, so that a person never has to ask why.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.resources import PODS, Resource
from manta.kube.client import Client

READY_CONDITIONS = ("Ready", "RayClusterProvisioned", "Available", "Complete")

WANTED = ("HeadPodReady", *READY_CONDITIONS)
TROUBLES = ("Blocked", "ReplicaFailure")
"""Conditions that are bad when they are True; what they say comes first."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is an object what its author wanted, and if not, why not?"""

    ready: bool
    failed: bool = False
    why: str = ""


def judge(kind: str, document: Mapping[str, Any]) -> Verdict:
    """Pure: the verdict on one object as the server shows it."""
    status = document.get("status") or {}
    match kind:
        case "RayJob":
            return _judge_job(status)
        case "RayCluster":
            return _judge_cluster(document.get("spec") or {}, status)
        case "Pod":
            return _judge_pod(document)
        case "Deployment":
            return _judge_deployment(document, status)
        case "RayService":
            return _judge_conditions(status)
        case _:
            return Verdict(ready=True)


def _judge_job(status: Mapping[str, Any]) -> Verdict:
    stage = status.get("jobDeploymentStatus", "")
    message = status.get("message") or status.get("reason") or f"stage {stage or 'New'}"
    if stage in ("Failed", "ValidationFailed"):
        return Verdict(ready=False, failed=True, why=message)
    return Verdict(ready=stage == "Complete", why=message)


def _judge_cluster(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Verdict:
    wanted = "suspended" if spec.get("suspend") else "ready"
    if status.get("state") == wanted:
        return Verdict(ready=True)
    return Verdict(ready=False, why=_blocking_message(status))


def _judge_conditions(status: Mapping[str, Any]) -> Verdict:
    for condition in status.get("conditions") or ():
        if condition["type"] in READY_CONDITIONS and condition["status"] == "True":
            return Verdict(ready=True)
    return Verdict(ready=False, why=_blocking_message(status))


def _judge_deployment(document: Mapping[str, Any], status: Mapping[str, Any]) -> Verdict:
    """Available by its newest template: what an older one does says nothing about this one."""
    generation = document.get("metadata", {}).get("generation", 0)
    if status.get("observedGeneration", generation) < generation:
        return Verdict(ready=False, why="its change has not been looked at yet")
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
        (text for text in told if text), status.get("reason") or "the operator has not looked yet"
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
class Followed:
    resource: Resource
    key: Key

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.key.name}"


class Follower:
    """Prints each change of what is waited for; the last line of a terminal shows it live."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._said: dict[str, str] = {}

    async def until_ready(self, followed: Sequence[Followed], timeout_seconds: float) -> bool:
        """True when all became ready in time. A failed object ends the wait at once."""
        watcher = asyncio.create_task(self._tell_of_pods({f.key.namespace for f in followed}))
        try:
            async with asyncio.timeout(timeout_seconds):
                verdicts = await asyncio.gather(*(self._follow_one(f) for f in followed))
        except TimeoutError:
            self._say("manta", f"not everything was ready within {timeout_seconds:.0f} s")
            return False
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
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
                if verdict.ready:
                    self._say(str(followed), "ready")
                    return verdict
                self._say(str(followed), verdict.why)
                if verdict.failed:
                    return verdict

    async def _tell_of_pods(self, namespaces: set[str]) -> None:
        await asyncio.gather(*(self._tell_of_pods_in(name) for name in namespaces if name))

    async def _tell_of_pods_in(self, namespace: str) -> None:
        while True:
            async for event in self._client.watch(PODS, namespace, into=dict):
                if event.type in ("ADDED", "MODIFIED"):
                    verdict = judge("Pod", event.object)
                    name = event.object["metadata"]["name"]
                    self._say(f"pod/{name}", "ready" if verdict.ready else verdict.why)

    def _say(self, who: str, what: str) -> None:
        if self._said.get(who) != what:
            self._said[who] = what
            print(f"  {who:<40} {what}", file=sys.stderr, flush=True)
