"""What must never happen, each stated once. The table also makes the documentation.

An oracle sees every accepted write right after it (`written`, with the state before in `world.live`), every
write that an operator sent (`sent`), and the end (`ended`). It reports a sentence for each violation. To add
one, write a class and enter it in `ORACLES`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from manta.api.ray import names
from simulation.history import ClusterHistory
from simulation.plane import Written
from simulation.transport import Sent

if TYPE_CHECKING:
    from simulation.world import World

Object = dict[str, Any]
RAY_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")
RAY = tuple(f"{one.lower()}s.ray.io" for one in RAY_KINDS)
CLUSTERS, RAY_JOBS, RAY_SERVICES, CRON_JOBS = RAY
STALE = 120.0
"""Seconds for which the operator may act on an old view, if faults make it blind."""
FINALIZER_SECONDS = 420.0
"""A finalizer may wait 300 s for the Redis cleanup, and for Pods to end before that."""


class Oracle:
    """One rule. `name` and the docstring are its row in the table."""

    name = ""

    def __init__(self, world: World, history: ClusterHistory) -> None:
        self.world = world
        self.history = history

    def written(self, written: Written) -> Iterator[str]:
        yield from ()

    def after(self, written: Written) -> Iterator[str]:
        """As `written`, when the history has seen it too."""
        yield from ()

    def sent(self, actor: str, sent: Sent) -> Iterator[str]:
        yield from ()

    def ended(self) -> Iterator[str]:
        """Called when all faults are over and everything had time to converge."""
        yield from ()


def is_operator(actor: str) -> bool:
    return actor.startswith("operator")


def controller_of(found: Object) -> Object | None:
    owners: list[Object] = found["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), None)


def runs(pod: Object) -> bool:
    """Whether the first container of a Pod runs, as far as the API server knows."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in statuses[:1])


class OneHead(Oracle):
    """A RayCluster never has two heads whose containers run."""

    name = "one-head"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or not _is_head(written.object) or not runs(written.object):
            return
        owner = controller_of(written.object)
        if owner is None or owner["kind"] != "RayCluster":
            return
        for pod in self.world.all("pods"):
            other = controller_of(pod)
            same = other is not None and owner["uid"] == other["uid"] and _is_head(pod)
            if same and pod["metadata"]["uid"] != written.metadata["uid"] and runs(pod):
                yield f"heads {pod['metadata']['name']} and {written.name} both run"


class PodDeletions(Oracle):
    """The operator deletes a Pod only for a reason: its cluster goes, is suspended or is recreated; its group is
    removed, suspended or has too many; it is named in workersToDelete; it has failed; or it is a second head."""

    name = "pod-deletion"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or not is_operator(written.by):
            return
        before = self.world.live["pods"].get(f"{written.metadata['namespace']}/{written.name}")
        if before is None or before["metadata"].get("deletionTimestamp"):
            return
        goes = written.type == "DELETED" or written.metadata.get("deletionTimestamp")
        if goes and not self.history.may_delete(before, written.at):
            yield f"{written.by} deleted Pod {written.name}, and no rule allows it"


class NoExtraPods(Oracle):
    """A worker group never has more living Pods than its spec asked for lately."""

    name = "no-extra-pods"

    def after(self, written: Written) -> Iterator[str]:
        if written.resource == "pods" and written.type == "ADDED" and not self.world.paused:
            extra = self.history.surplus(written.object, written.at)
            if extra:
                yield f"{written.by} created {written.name}: {extra}"


class RunsOnce(Oracle):
    """No entrypoint runs twice: an attempt of a RayJob is executed at most once."""

    name = "runs-once"

    def __init__(self, world: World, history: ClusterHistory) -> None:
        super().__init__(world, history)
        self._known: set[tuple[str, str]] = set()
        self._read = 0

    def written(self, written: Written) -> Iterator[str]:
        yield from self.ended()

    def ended(self) -> Iterator[str]:
        found = self.world.ray.executions
        for one in found[self._read :]:
            if (one.cluster, one.job_id) in self._known:
                yield f"job {one.job_id} ran again on {one.cluster} at {one.at:.1f} s"
            self._known.add((one.cluster, one.job_id))
        self._read = len(found)


class TerminalStays(Oracle):
    """A RayJob that is Complete or Failed stays so, and so does a final job status. After a deadline the job may
    still run, until Ray confirms that it has stopped."""

    name = "terminal-stays"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != RAY_JOBS or written.type != "MODIFIED":
            return
        before = self.world.live[RAY_JOBS].get(f"{written.metadata['namespace']}/{written.name}")
        if before is None or before["metadata"]["uid"] != written.metadata["uid"]:
            return
        old, new = before.get("status") or {}, written.object.get("status") or {}
        if old.get("jobDeploymentStatus") in ("Complete", "Failed"):
            ended = old.get("jobStatus") in ("SUCCEEDED", "FAILED", "STOPPED")
            for field in ("jobDeploymentStatus", "jobId", *(("jobStatus",) if ended else ())):
                if old.get(field) != new.get(field):
                    yield f"RayJob {written.name}: {field} {old.get(field)} became {new.get(field)}"


class ServesOnly(Oracle):
    """A serve Service never points at a cluster whose applications do not run."""

    name = "serves-only"

    def written(self, written: Written) -> Iterator[str]:
        owner = controller_of(written.object)
        if written.resource != "services" or written.type == "DELETED":
            return
        if owner is None or owner["kind"] != "RayService" or not _is_serve(written.name):
            return
        chosen = (written.object["spec"].get("selector") or {}).get(names.LABEL_CLUSTER, "")
        before = self.world.live.get("services", {}).get(
            f"{written.metadata['namespace']}/{written.name}"
        )
        old = ((before or {}).get("spec") or {}).get("selector") or {}
        if not chosen or chosen == old.get(names.LABEL_CLUSTER):
            return
        last = self.world.ray.served_at.get(chosen, -1e9)
        if not self.world.ray.runs(chosen) and written.at - last > STALE:
            yield f"Service {written.name} was pointed at {chosen}, which does not serve"


class TwoClusters(Oracle):
    """A RayService never has more than two clusters, beside those that wait for their deletion."""

    name = "two-clusters"

    def written(self, written: Written) -> Iterator[str]:
        owner = controller_of(written.object)
        if written.resource != CLUSTERS or written.type != "ADDED" or owner is None:
            return
        if owner["kind"] != "RayService":
            return
        alive = [
            one["metadata"]["name"]
            for one in [*self.world.all(CLUSTERS), written.object]
            if (controller_of(one) or {}).get("uid") == owner["uid"]
            and not one["metadata"].get("deletionTimestamp")
            and names.ANNOTATION_DELETE_AFTER not in (one["metadata"].get("annotations") or {})
        ]
        if len(alive) > 2:
            yield f"RayService {owner['name']} has {len(alive)} clusters: {', '.join(alive)}"


class DeletesByUid(Oracle):
    """Every delete of the operator carries the UID of the object that it means."""

    name = "deletes-by-uid"

    def sent(self, actor: str, sent: Sent) -> Iterator[str]:
        if sent.method != "DELETE":
            return
        body = json.loads(sent.body or b"{}")
        if not (body.get("preconditions") or {}).get("uid"):
            yield f"{actor} sent DELETE {sent.path} without a UID"


class OwnObjectsOnly(Oracle):
    """The operator changes and deletes only what a Ray object controls, and of Ray objects themselves only the
    status, finalizers and annotations; what it creates has an owner that exists."""

    name = "own-objects"
    _FREE = ("events", "leases.coordination.k8s.io", "resourcequotas")
    """The server itself counts a new Pod in a quota."""

    def written(self, written: Written) -> Iterator[str]:
        if not is_operator(written.by) or written.resource in self._FREE:
            return
        key = f"{written.metadata.get('namespace', '')}/{written.name}"
        before = self.world.live.get(written.resource, {}).get(key)
        owner = controller_of(before or written.object)
        what = f"{written.by} {written.type} {written.resource} {written.name}"
        if owner is not None and owner["kind"] in (*RAY_KINDS, "Certificate"):
            if written.type == "ADDED" and not self._exists(owner, written.metadata):
                yield f"{what}: its owner {owner['kind']} {owner['name']} does not exist"
            return
        if written.resource in RAY and before is not None:
            changed = before["metadata"].get("generation") != written.metadata.get("generation")
            going = written.type != "MODIFIED" or written.metadata.get("deletionTimestamp")
            if changed and not going:
                yield f"{what}: it changed the spec of the user's object"
            return
        if self._adopts(before, written):
            return
        yield f"{what}: it does not belong to a Ray object"

    def _exists(self, owner: Object, meta: Object) -> bool:
        key = f"{meta.get('namespace', '')}/{owner['name']}"
        table = self.world.live.get(f"{owner['kind'].lower()}s.ray.io", {})
        known = table.get(key)
        if known is not None and known["metadata"]["uid"] == owner["uid"]:
            return True
        return self.history.existed(owner["uid"], STALE)

    @staticmethod
    def _adopts(before: Object | None, written: Written) -> bool:
        """A claim or Secret that outlives its cluster has an owner of another kind, or none, by design."""
        return written.resource in ("persistentvolumeclaims", "secrets")


class FinalizersEnd(Oracle):
    """No finalizer of ours holds an object for longer than seven minutes while an operator runs."""

    name = "finalizers-end"

    def ended(self) -> Iterator[str]:
        now = self.world.clock.now()
        for resource in RAY:
            for one in self.world.all(resource):
                marked = one["metadata"].get("deletionTimestamp")
                if marked and (now - _time(marked)).total_seconds() > FINALIZER_SECONDS:
                    yield f"{resource} {one['metadata']['name']} is deleted since {marked}: {one['metadata'].get('finalizers')}"


class WaitsAreVisible(Oracle):
    """An object that is not where its spec wants it says why: in a condition, a message or an Event."""

    name = "visible-reason"

    def ended(self) -> Iterator[str]:
        warned = {uid for _, kind, uid in self.world.events() if kind == "Warning"}
        for resource in RAY[:3]:
            for one in self.world.all(resource):
                managed = (one.get("spec") or {}).get("managedBy", names.MANAGED_BY_OPERATOR)
                if managed != names.MANAGED_BY_OPERATOR or one["metadata"]["uid"] in warned:
                    continue
                if not _is_settled(one) and not _says_why(one):
                    yield f"{resource} {one['metadata']['name']} waits and does not say why: {one.get('status')}"


class OneJobPerTick(Oracle):
    """A RayCronJob never starts two RayJobs for one tick."""

    name = "one-job-per-tick"

    def __init__(self, world: World, history: ClusterHistory) -> None:
        super().__init__(world, history)
        self._ticks: set[tuple[str, str]] = set()

    def written(self, written: Written) -> Iterator[str]:
        owner = controller_of(written.object)
        if written.resource != RAY_JOBS or written.type != "ADDED" or owner is None:
            return
        tick = (written.metadata.get("annotations") or {}).get(names.ANNOTATION_CRON_SCHEDULED_TIME)
        if owner["kind"] == "RayCronJob" and tick:
            if (owner["uid"], tick) in self._ticks:
                yield f"RayCronJob {owner['name']} started {written.name} for {tick} again"
            self._ticks.add((owner["uid"], tick))


class GenerationsOnly(Oracle):
    """status.observedGeneration never goes back and never runs ahead of the object."""

    name = "observed-generation"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource not in RAY or written.type != "MODIFIED":
            return
        before = self.world.live[written.resource].get(
            f"{written.metadata['namespace']}/{written.name}"
        )
        seen = (written.object.get("status") or {}).get("observedGeneration") or 0
        old = ((before or {}).get("status") or {}).get("observedGeneration") or 0
        same = before is not None and before["metadata"]["uid"] == written.metadata["uid"]
        if seen > written.metadata.get("generation", 0) or (same and seen < old):
            yield f"{written.resource} {written.name}: observedGeneration {old} became {seen}"


class NoReconcileRaises(Oracle):
    """No pure phase of a reconcile raises, and no task of the operator ends by itself."""

    name = "no-bug"

    def ended(self) -> Iterator[str]:
        for replica in self.world.replicas:
            for life in [*replica.ended, *([replica.life] if replica.life else [])]:
                yield from self._of(replica.name, life)

    @staticmethod
    def _of(name: str, life: Any) -> Iterator[str]:
        for task in life.tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                yield f"{name} ended with {task.exception()!r}"
        failures = life.manager.metrics.failures
        for labels, value in sorted(failures._values.items()):
            if value and labels[1] in ("plan", "events", "decode"):
                yield f"{name}: {labels} raised {value:.0f} times"


ORACLES: tuple[type[Oracle], ...] = (
    OneHead,
    PodDeletions,
    NoExtraPods,
    RunsOnce,
    TerminalStays,
    ServesOnly,
    TwoClusters,
    DeletesByUid,
    OwnObjectsOnly,
    FinalizersEnd,
    WaitsAreVisible,
    OneJobPerTick,
    GenerationsOnly,
    NoReconcileRaises,
)

AT_THE_END = (
    ("no-hot-loop", "Nobody sends more than 5,000 requests in a virtual minute."),
    (
        "quiet",
        (
            "Within 20 virtual minutes after the last fault the operators come to rest: "
            "0 writes in five and a half minutes."
        ),
    ),
    (
        "converges",
        "Then everything is as in a run without faults from the same specs.",
    ),
)
"""Checked by `run`, beside the table."""


def _is_head(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get(names.LABEL_NODE_TYPE) == names.NODE_HEAD


def _is_serve(name: str) -> bool:
    return name.endswith("-serve-svc")


def _time(text: str) -> Any:
    from manta.api.times import parse_time

    return parse_time(text)


def _is_settled(one: Object) -> bool:
    status = one.get("status") or {}
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    if one["metadata"].get("deletionTimestamp"):
        return False
    if "jobDeploymentStatus" in status:
        return status["jobDeploymentStatus"] in ("Complete", "Failed", "Suspended", "Running")
    return bool(true & {"RayClusterProvisioned", "RayClusterSuspended", "Ready", "Suspended"})


def _says_why(one: Object) -> bool:
    status = one.get("status") or {}
    if status.get("message") or status.get("reason"):
        return True
    said = [each for each in status.get("conditions") or () if each.get("message")]
    return bool(said)
