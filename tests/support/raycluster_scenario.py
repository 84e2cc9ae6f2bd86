"""A scenario for the pure phases of the RayCluster controller: objects in dictionaries, no server.

`Scenario.reconcile` observes, plans, executes and writes status as the real loop does, with faults where a test
wants them. Time moves only when a test moves it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manta.api.batch import Job
from manta.api.certificates import Certificate
from manta.api.core import (
    PersistentVolumeClaim,
    Pod,
    Service,
    ServiceAccount,
)
from manta.api.meta import Key, Object
from manta.api.networking import Ingress, NetworkPolicy, Route
from manta.api.policy import PodDisruptionBudget
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.rbac import Role, RoleBinding
from manta.api.resources import PODS, SECRETS, Resource
from manta.api.revisions import ControllerRevision
from manta.api.scheduling import PodGroup
from manta.api.times import format_time
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import next_status
from manta.controllers.raycluster.status_throttle import status_delay
from manta.controllers.raycluster.unnamed_heads import UnnamedHeads
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Call, Create, Delete, Patch
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.reconcile.plan import NOTHING, Plan
from manta.rules.settings import Settings
from manta.rules.validation.cluster import cluster_violations
from support.merge_patch import merged

EPOCH = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
UID = "c1"
HEAD = "demo-head-rznnf"
"""The first head of the RayCluster `demo` with that UID."""

Fault = Callable[[Action], Exception | None]


def decode(manifest: dict[str, Any], **meta: Any) -> RayCluster:
    body = copy.deepcopy(manifest)
    defaults = {
        "uid": UID,
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": format_time(EPOCH),
    }
    body["metadata"] = defaults | body["metadata"] | meta
    return msgspec.convert(body, RayCluster)


@dataclass
class Scenario:
    cluster: RayCluster
    settings: Settings = field(default_factory=Settings)
    now: datetime = EPOCH
    objects: dict[tuple[Resource, str], dict[str, Any]] = field(default_factory=dict)
    log: list[Action] = field(default_factory=list)
    status_writes: int = 0
    held_since: datetime | None = None
    unnamed_heads: UnnamedHeads = field(default_factory=UnnamedHeads)
    serial: int = 0

    # ── seeing ───────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> ClusterSnapshot:
        pods = [msgspec.convert(one, Pod) for one in self.of("Pod")]
        mine = [pod for pod in pods if self._mine(pod)]
        return ClusterSnapshot(
            cluster=self.cluster,
            settings=self.settings,
            now=self.now,
            seed=self.serial,
            violations=cluster_violations(self.cluster, self.settings),
            pods=tuple(mine),
            foreign_pods=tuple(pod for pod in pods if pod not in mine),
            services=self._named("Service", Service),
            service_account=self._first("ServiceAccount", ServiceAccount),
            role=self._first("Role", Role),
            role_binding=self._first("RoleBinding", RoleBinding),
            ingress=self._first("Ingress", Ingress),
            route=self._first("Route", Route),
            network_policies=tuple(
                self._view(one, NetworkPolicy) for one in self.of("NetworkPolicy")
            ),
            pod_group=self._first("PodGroup", PodGroup),
            head_pdb=self._first("PodDisruptionBudget", PodDisruptionBudget),
            issuers=self._named("Issuer", Object),
            certificates=self._named("Certificate", Certificate),
            gcs_claim=self._first("PersistentVolumeClaim", PersistentVolumeClaim),
            revisions=tuple(
                self._view(one, ControllerRevision) for one in self.of("ControllerRevision")
            ),
            cleanup_jobs=tuple(self._view(one, Job) for one in self.of("Job")),
        )

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [one for (resource, _), one in self.objects.items() if resource.kind == kind]

    @property
    def pods(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.of("Pod")}

    def workers(self, group: str = "workers") -> list[dict[str, Any]]:
        return [
            one
            for one in self.of("Pod")
            if one["metadata"]["labels"].get(names.LABEL_NODE_TYPE) == "worker"
            and one["metadata"]["labels"].get(names.LABEL_GROUP) == group
        ]

    def heads(self) -> list[dict[str, Any]]:
        pods = self.of("Pod")
        return [one for one in pods if one["metadata"]["labels"][names.LABEL_NODE_TYPE] == "head"]

    def _mine(self, pod: Pod) -> bool:
        owner = pod.metadata.controller
        return owner is None or owner.uid == self.cluster.metadata.uid

    @staticmethod
    def _view(one: dict[str, Any], into: type[Any]) -> Any:
        return msgspec.convert(one, into)

    def _first(self, kind: str, into: type[Any]) -> Any:
        found = self.of(kind)
        return self._view(found[0], into) if found else None

    def _named(self, kind: str, into: type[Any]) -> Any:
        return {one["metadata"]["name"]: self._view(one, into) for one in self.of(kind)}

    # ── doing ────────────────────────────────────────────────────────────────────────────

    def plan(self) -> Plan:
        return plan(self.snapshot()).plan

    def reconcile(self, fault: Fault | None = None, *, report: bool = True) -> Plan:
        """Reconcile once. A fault on an action is handled as by the executor: the stage ends."""
        self.serial += 1
        snapshot = self.snapshot()
        snapshot = replace(snapshot, unnamed_head=self.unnamed_heads.of(snapshot))
        chosen = plan(snapshot).plan
        outcome = self.perform(chosen, fault)
        if report:
            self.report(snapshot, outcome, chosen)
        return chosen

    def perform(self, chosen: Plan, fault: Fault | None = None) -> Outcome:
        done: list[Result] = []
        failures: list[Failure] = []
        for stage in chosen.stages:
            before = len(failures)
            for action in stage.actions:
                error = fault(action) if fault else None
                if error is not None:
                    failures.append(Failure(action, error))
                    break
                self.apply(action)
                done.append(Result(action, action.key))
            if len(failures) > before and not stage.independent:
                break
        return Outcome(tuple(done), tuple(failures))

    def report(self, snapshot: ClusterSnapshot, outcome: Outcome, chosen: Plan = NOTHING) -> None:
        if snapshot.is_being_deleted:
            return
        new = next_status(snapshot, outcome, chosen.blocked_by)
        when = status_delay(snapshot, new, self.held_since)
        self.held_since = self.held_since or self.now if when else None
        if when == timedelta(0):
            self.cluster = msgspec.structs.replace(self.cluster, status=new)
            self.status_writes += 1
            self.unnamed_heads.wrote(self.cluster.metadata.key, new)

    def apply(self, action: Action) -> None:
        self.log.append(action)
        match action:
            case Create():
                self.put(action.resource, dict(action.manifest))
            case Delete():
                self.delete(action.resource, action.key, action.uid)
            case Patch():
                self._patch(action)
            case Call():
                raise AssertionError("a RayCluster calls nobody")

    def put(self, resource: Resource, manifest: dict[str, Any]) -> dict[str, Any]:
        self.serial += 1
        body = copy.deepcopy(manifest)
        meta = body["metadata"]
        meta.setdefault("uid", f"u{self.serial}")
        meta.setdefault("resourceVersion", str(self.serial))
        meta.setdefault("creationTimestamp", format_time(self.now))
        if (resource, meta["name"]) in self.objects:
            if resource == SECRETS:
                return self.objects[resource, meta["name"]]  # adopted: nobody looks for these
            raise AssertionError(f"{resource.kind} {meta['name']} is there already")
        self.objects[resource, meta["name"]] = body
        return body

    def delete(self, resource: Resource, key: Key, uid: str, grace: int = 30) -> None:
        found = self.objects.get((resource, key.name))
        if found is None or found["metadata"]["uid"] != uid:
            return
        if resource == PODS:
            gone_by = format_time(self.now + timedelta(seconds=grace))
            found["metadata"].setdefault("deletionTimestamp", gone_by)
        else:
            del self.objects[resource, key.name]

    def _patch(self, action: Patch) -> None:
        if action.resource.kind == "RayCluster":
            finalizers = tuple(action.patch["metadata"]["finalizers"])
            meta = msgspec.structs.replace(self.cluster.metadata, finalizers=finalizers)
            self.cluster = msgspec.structs.replace(self.cluster, metadata=meta)
            return
        found = self.objects[action.resource, action.key.name]
        self.objects[action.resource, action.key.name] = merged(found, action.patch)

    # ── the rest of the scenario ────────────────────────────────────────────────────────────

    def remove_deleted(self) -> None:
        """All Pods on their way out are gone."""
        for (resource, name), one in list(self.objects.items()):
            if resource == PODS and one["metadata"].get("deletionTimestamp"):
                del self.objects[resource, name]

    def run_pods(self) -> None:
        for one in self.of("Pod"):
            meta, spec = one["metadata"], one["spec"]
            if not (
                "status" in one or meta.get("deletionTimestamp") or spec.get("schedulingGates")
            ):
                set_running(one)

    def issue_certificates(self) -> None:
        """As cert-manager does."""
        for one in self.of("Certificate"):
            ready = {"type": "Ready", "status": "True"}
            one.setdefault("status", {"conditions": [ready], "revision": 1})
            name = one["spec"]["secretName"]
            if (SECRETS, name) not in self.objects:
                self.put(SECRETS, {"metadata": {"name": name, "namespace": "default"}})

    def set_spec(self, manifest: dict[str, Any], **meta: Any) -> None:
        spec = msgspec.convert(manifest["spec"], type(self.cluster.spec))
        generation = self.cluster.metadata.generation + 1
        changed = msgspec.structs.replace(self.cluster.metadata, generation=generation, **meta)
        self.cluster = msgspec.structs.replace(self.cluster, spec=spec, metadata=changed)

    def settle(self, most: int = 12) -> int:
        """Reconcile, run all Pods and remove all deleted ones, until nothing is planned; returns how often."""
        for number in range(most):
            writes = self.status_writes
            chosen = self.reconcile()
            if not chosen.actions and self.status_writes == writes and self._is_quiet():
                return number
            self.remove_deleted()
            self.run_pods()
            self.issue_certificates()
            self.now += timedelta(seconds=3)
        raise AssertionError(f"still busy after {most} reconciles: {self.plan()}")

    def _is_quiet(self) -> bool:
        if self.held_since is not None:
            return False
        return all("status" in one for one in self.of("Pod")) and not any(
            one["metadata"].get("deletionTimestamp") for one in self.of("Pod")
        )


def set_running(
    pod: dict[str, Any], *, ready: bool = True, ip: str = "10.0.0.1", since: str | None = None
) -> None:
    pod["spec"].setdefault("nodeName", "n1")
    pod["status"] = {
        "phase": "Running",
        "podIP": ip,
        "conditions": [
            {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
        ],
        "containerStatuses": [
            {"name": one["name"], "ready": ready, "state": {"running": {}}}
            for one in pod["spec"]["containers"]
        ],
    }


def set_failed(
    pod: dict[str, Any], at: datetime, *, exit_code: int = 42, container: str = ""
) -> None:
    name = container or pod["spec"]["containers"][0]["name"]
    ended = {"exitCode": exit_code, "finishedAt": format_time(at)}
    pod["status"] = {
        "phase": "Failed",
        "containerStatuses": [{"name": name, "state": {"terminated": ended}}],
    }


def denied(message: str) -> Fault:
    """Every creation of a Pod is refused, as a quota or a webhook does."""

    def fault(action: Action) -> Exception | None:
        if isinstance(action, Create) and action.resource == PODS:
            return ApiError(403, "Forbidden", message)
        return None

    return fault
