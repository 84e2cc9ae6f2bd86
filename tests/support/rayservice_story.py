"""Tells what happens to a RayService as a story: who did what, and when, in virtual time.

Clusters are called by the order of their making: `demo-A`, `demo-B`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.resources import HTTP_ROUTES, PODS, SERVICES, Resource
from support.raycluster import NAMESPACE
from support.rayservice import Scenario
from support.story import BaseStory, Object, Tell, is_ready, summary
from support.virtual import running

LETTERS = "ABCDEFGHIJ"
SERVING = "manta.ray.io/serving"


@dataclass
class Story(BaseStory):
    scenario: Scenario
    with_route: bool = False
    _deleted: set[str] = field(default_factory=set)
    _given: dict[str, str] = field(default_factory=dict)

    async def user(self, text: str, **edit: Any) -> None:
        """The user patches the RayService; the line has the revision of that write."""
        await self._patch(text, {"spec": edit})

    async def annotates(self, text: str, **annotations: str) -> None:
        await self._patch(text, {"metadata": {"annotations": annotations}})

    async def _patch(self, text: str, body: Object) -> None:
        written = await self.scenario.client.patch(RAY_SERVICES, self.scenario.key, body, into=dict)
        self._add(written, "user", text)

    async def run(self, since: str) -> None:
        tell: dict[Resource, Tell] = {
            RAY_SERVICES: self._service,
            RAY_CLUSTERS: self._cluster,
            SERVICES: self._kube_service,
            PODS: self._pod,
        }
        if self.with_route:
            tell[HTTP_ROUTES] = self._route
        await self._watch_all(self.scenario.client, tell, since)

    # ── what each kind has to tell ───────────────────────────────────────────────────────

    def _service(self, type_: str, old: Object, new: Object) -> None:
        if type_ == "ADDED":
            self._add(new, "user", f"creates RayService {new['metadata']['name']}")
            return
        if type_ == "DELETED":
            self._add(new, "server", f"RayService {new['metadata']['name']} is gone")
            return
        before, after = old.get("status") or {}, new.get("status") or {}
        for side, word in (("activeServiceStatus", "active"), ("pendingServiceStatus", "pending")):
            self._side(new, word, before.get(side) or {}, after.get(side) or {})
        was = {one["type"]: one for one in before.get("conditions") or ()}
        now = {one["type"]: one for one in after.get("conditions") or ()}
        for name, one in now.items():
            if summary(was.get(name)) != summary(one):
                text = f"{name}={one['status']} {one['reason']}: {one['message']}"
                self._add(new, "status", text)
        for name in sorted(was.keys() - now.keys()):
            self._add(new, "status", f"{name} is no longer said")

    def _side(self, new: Object, word: str, before: Object, after: Object) -> None:
        name: Any = after.get("rayClusterName")
        submission = after.get("serveSubmission") or {}
        given = f"{submission.get('configHash')}@{submission.get('head')}"
        if submission and given != self._given.get(name):
            self._given[name] = given
            percent = self.scenario.head(name).puts[-1].get("target_capacity")
            share = "" if percent is None else f", and asked it for {percent} % of its capacity"
            self._add(new, "operator", f"has given the Serve config to {name}{share}")
        if before.get("rayClusterName") != name:
            self._add(new, "status", f"{word}: {name or 'none'}")
        for field_, what in (("targetCapacity", "capacity"), ("trafficRoutedPercent", "traffic")):
            if name and before.get(field_) != after.get(field_) and field_ in after:
                self._add(new, "status", f"{word} {name}: {what} {after[field_]} %")

    def _cluster(self, type_: str, old: Object, new: Object) -> None:
        meta, was = new["metadata"], (old.get("metadata") or {})
        name = meta["name"]
        if name not in self._names:
            self._names[name] = f"{self.scenario.name}-{LETTERS[len(self._names)]}"
        if type_ == "ADDED":
            head = new["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
            self._add(new, "operator", f"creates RayCluster {name} with {head['image']}")
        if type_ == "DELETED" or (
            "deletionTimestamp" in meta and "deletionTimestamp" not in was and old
        ):
            if name not in self._deleted:  # one that waits for its Pods goes later
                self._add(new, "operator", f"deletes RayCluster {name}")
            self._deleted.add(name)
            return
        notes, had = meta.get("annotations") or {}, was.get("annotations") or {}
        due = notes.get("manta.ray.io/delete-after")
        if due and due != had.get("manta.ray.io/delete-after"):
            self._add(new, "operator", f"will delete {name} at {due[11:19]}")
        rejected = notes.get("manta.ray.io/rejected-spec", "").partition(" ")[2]
        if rejected and rejected not in had.get("manta.ray.io/rejected-spec", ""):
            self._add(new, "operator", f"rejects the new spec: {rejected}")
        if old and old["spec"] != new["spec"]:
            sizes = "manta.ray.io/full-size" in (*notes, *had)
            change = _sizes(old, new) if sizes else f"changes RayCluster {name} where it stands"
            self._add(new, "operator", change)

    def _kube_service(self, type_: str, old: Object, new: Object) -> None:
        name, prefix = new["metadata"]["name"], f"{self.scenario.name}-"
        if name not in (f"{prefix}serve-svc", f"{prefix}head-svc"):
            return
        if type_ == "DELETED":
            self._add(new, "operator", f"deletes Service {name}")
            return
        target = new["spec"]["selector"].get("ray.io/cluster", "the chosen Pods of both clusters")
        if not old or old["spec"]["selector"] != new["spec"]["selector"]:
            self._add(new, "operator", f"points Service {name} at {target}")

    def _pod(self, type_: str, old: Object, new: Object) -> None:
        labels = new["metadata"].get("labels") or {}
        cluster, role = labels.get("ray.io/cluster", ""), labels.get("ray.io/node-type")
        had = (old.get("metadata") or {}).get("labels") or {}
        if type_ == "MODIFIED" and labels.get(SERVING) != had.get(SERVING):
            verb = "chooses" if labels.get(SERVING) else "no longer chooses"
            self._add(new, "operator", f"{verb} a {role} of {cluster} to take requests")
        if role != "head":
            return
        if type_ == "DELETED":
            if cluster not in self._deleted:  # else it goes with its cluster, in any order
                self._add(new, "kubelet", f"the head of {cluster} is gone")
            return
        if is_ready(new) and not is_ready(old):
            self._add(new, "kubelet", f"the head of {cluster} is ready")
        serves = labels.get("ray.io/serve")
        if old and (old["metadata"].get("labels") or {}).get("ray.io/serve") != serves:
            verb = "lets requests to" if serves == "true" else "keeps requests from"
            self._add(new, "operator", f"{verb} the head of {cluster}")

    def _route(self, type_: str, old: Object, new: Object) -> None:
        if type_ == "DELETED":
            self._add(new, "operator", "deletes the HTTPRoute")
            return
        refs = new["spec"]["rules"][0]["backendRefs"]
        if old and old["spec"]["rules"][0]["backendRefs"] == refs:
            return
        shares = ", ".join(f"{one['weight']} % to {one['name']}" for one in refs)
        self._add(new, "operator", f"routes {shares}")


def _sizes(old: Object, new: Object) -> str:
    """How a canary changes the workers of a cluster."""
    pairs = zip(old["spec"]["workerGroupSpecs"], new["spec"]["workerGroupSpecs"], strict=True)
    counts = [f"{after['replicas']} {after['groupName']}" for _, after in pairs]
    return f"asks RayCluster {new['metadata']['name']} for {', '.join(counts)} workers"


@asynccontextmanager
async def recorded(scenario: Scenario, *, with_route: bool = False) -> AsyncIterator[Story]:
    story = Story(scenario, with_route)
    since = (await scenario.client.list(RAY_SERVICES, NAMESPACE)).resource_version
    async with running(story.run(since)):
        yield story
