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
from simulation.actions import ACTIONS
from simulation.history import ClusterHistory
from simulation.plane import Written
from simulation.transport import Sent

if TYPE_CHECKING:
    from simulation.world import World

Object = dict[str, Any]
RAY_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")
RAY = tuple(f"{one.lower()}s.ray.io" for one in RAY_KINDS)
CLUSTERS, RAY_JOBS, RAY_SERVICES, CRON_JOBS = RAY
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
    removed, suspended or has too many; a rolling update replaces it; it is named in workersToDelete; it has failed; or
    it is a second head."""

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


class RollsGently(Oracle):
    """A rolling update deletes a ready worker only if as many of its group stay ready as `maxUnavailable` allows."""

    name = "rolls-gently"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or not is_operator(written.by):
            return
        before = self.world.live["pods"].get(f"{written.metadata['namespace']}/{written.name}")
        if before is None or before["metadata"].get("deletionTimestamp") or not _is_ready(before):
            return
        goes = written.type == "DELETED" or written.metadata.get("deletionTimestamp")
        least = self.history.least_ready(before, written.at) if goes else None
        if least is None or self.world.paused or _is_head(before):
            return
        stay = sum(self._is_mate(before, pod) for pod in self.world.all("pods"))
        if stay < least:
            yield f"{written.by} deleted {written.name}: {stay} stay ready, and {least} must"

    @staticmethod
    def _is_mate(pod: Object, other: Object) -> bool:
        """Whether the other one is a ready worker of the same group."""
        mine, meta = pod["metadata"], other["metadata"]
        owners = (controller_of(pod) or {}).get("uid"), (controller_of(other) or {}).get("uid")
        groups = [(one.get("labels") or {}).get(names.LABEL_GROUP) for one in (mine, meta)]
        same = owners[0] == owners[1] and groups[0] == groups[1] and mine["uid"] != meta["uid"]
        return same and not meta.get("deletionTimestamp") and _is_ready(other)


class RunsOnce(Oracle):
    """No entrypoint runs twice: an attempt of a RayJob is executed at most once, and each attempt has a cluster of
    its own unless the user names one."""

    name = "runs-once"

    def __init__(self, world: World, history: ClusterHistory) -> None:
        super().__init__(world, history)
        self._known: set[tuple[str, str]] = set()
        self._of_jobs: set[str] = set()
        self._read = 0

    def written(self, written: Written) -> Iterator[str]:
        owner = controller_of(written.object) or {}
        if written.resource == CLUSTERS and owner.get("kind") == "RayJob":
            self._of_jobs.add(written.name)
        yield from self.ended()

    def ended(self) -> Iterator[str]:
        found = self.world.ray.executions
        for one in found[self._read :]:
            what = (one.cluster, "" if one.cluster in self._of_jobs else one.job_id)
            if what in self._known:
                yield f"job {one.job_id} ran again on {one.cluster} at {one.at:.1f} s"
            self._known.add(what)
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


class AsRaySays(Oracle):
    """A RayJob ends as Ray says: it is Complete only if the job did not fail; neither the application nor the submission
    has failed while the job runs, or if it succeeded; and it has ended if the job has. Nothing is said about stories
    whose steps may kill a job."""

    name = "as-ray-says"
    _OWN_FAULT = ("AppFailed", "SubmissionFailed")

    def __init__(self, world: World, history: ClusterHistory) -> None:
        super().__init__(world, history)
        self._silent = any(ACTIONS[step.do].touches_jobs for step in world.story.steps)

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != RAY_JOBS or written.type != "MODIFIED" or self._silent:
            return
        before = self.world.live[RAY_JOBS].get(f"{written.metadata['namespace']}/{written.name}")
        old = (before or {}).get("status") or {}
        new = written.object.get("status") or {}
        stage, reason = new.get("jobDeploymentStatus"), new.get("reason")
        if stage == old.get("jobDeploymentStatus"):
            return
        ray = self._told(old)
        if stage in ("Failed", "Retrying") and reason in self._OWN_FAULT:
            if ray in ("RUNNING", "SUCCEEDED"):
                yield f"RayJob {written.name} became {stage} ({reason}), and Ray's job is {ray}"
        elif stage == "Complete" and ray == "FAILED":
            yield f"RayJob {written.name} became {stage}, and Ray's job is {ray}"

    def ended(self) -> Iterator[str]:
        for one in self.world.all(RAY_JOBS) if not self._silent else ():
            status = one.get("status") or {}
            ray = self._told(status)
            if status.get("jobDeploymentStatus") == "Running" and ray not in ("", "RUNNING"):
                yield f"RayJob {one['metadata']['name']} is Running, and Ray's job is {ray}"

    def _told(self, status: Object) -> str:
        """What Ray says about the job of this attempt; empty if it never had it."""
        attempt = (status.get("rayClusterName", ""), status.get("jobId", ""))
        known = [
            one.job.status
            for one in self.world.ray.executions
            if (one.cluster, one.job_id) == attempt
        ]
        return known[-1] if known else ""


class ServesOnly(Oracle):
    """A serve Service never points at a cluster whose applications do not run, and no HTTPRoute gives more requests to
    one."""

    name = "serves-only"

    def written(self, written: Written) -> Iterator[str]:
        owner = controller_of(written.object)
        if written.type == "DELETED" or not is_operator(written.by):
            return
        if owner is None or owner["kind"] != "RayService":
            return
        before = self.world.live.get(written.resource, {}).get(
            f"{written.metadata['namespace']}/{written.name}"
        )
        old, new = self._chosen(written.resource, before), self._chosen(written.resource, written)
        for cluster in sorted(new):
            last = self.world.ray.served_at.get(cluster, -1e9)
            serves = self.world.ray.runs(cluster) or written.at - last <= self.history.window
            if new[cluster] > old.get(cluster, 0) and not serves:
                yield f"{written.resource} {written.name} was pointed at {cluster}, which does not serve"

    def _chosen(self, resource: str, found: Written | Object | None) -> dict[str, int]:
        """The clusters that get requests, with their weights."""
        one = found.object if isinstance(found, Written) else found or {"metadata": {"name": ""}}
        spec = one.get("spec") or {}
        if resource == "services" and _is_serve(one["metadata"]["name"]):
            return {name: 1 for name in [_cluster_of(one)] if name}
        if resource != "httproutes.gateway.networking.k8s.io":
            return {}
        weights: dict[str, int] = {}
        for backend in (each for rule in spec.get("rules") or () for each in rule["backendRefs"]):
            service = self.world.live["services"].get(
                f"{one['metadata']['namespace']}/{backend['name']}"
            )
            if service is not None:
                weights[_cluster_of(service)] = backend.get("weight", 1)
        return weights


def _cluster_of(service: Object) -> str:
    return str((service["spec"].get("selector") or {}).get(names.LABEL_CLUSTER, ""))


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
    status, finalizers and annotations; what it creates has an owner that exists. It leaves alone what `managedBy` gives
    to another controller."""

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
        if self._belongs_to_another(owner, before, written):
            yield f"{what}: another controller manages it"
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

    def _belongs_to_another(
        self, owner: Object | None, before: Object | None, written: Written
    ) -> bool:
        """By `managedBy`, which cannot change, of the Ray object or of the one that controls it."""
        subject = before if written.resource in RAY else None
        if owner is not None and subject is None:
            table = self.world.live.get(f"{owner['kind'].lower()}s.ray.io", {})
            subject = table.get(f"{written.metadata.get('namespace', '')}/{owner['name']}")
        managed = ((subject or {}).get("spec") or {}).get("managedBy")
        return bool(managed) and managed != names.MANAGED_BY_OPERATOR

    def _exists(self, owner: Object, meta: Object) -> bool:
        key = f"{meta.get('namespace', '')}/{owner['name']}"
        table = self.world.live.get(f"{owner['kind'].lower()}s.ray.io", {})
        known = table.get(key)
        if known is not None and known["metadata"]["uid"] == owner["uid"]:
            return True
        return self.history.existed(owner["uid"], self.history.window)

    @staticmethod
    def _adopts(before: Object | None, written: Written) -> bool:
        """A claim or Secret that outlives its cluster has an owner of another kind, or none, by design."""
        return written.resource in ("persistentvolumeclaims", "secrets")


class FinalizersEnd(Oracle):
    """No finalizer of ours holds an object for longer than seven minutes."""

    name = "finalizers-end"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource in RAY and written.type == "DELETED":
            marked = written.metadata.get("deletionTimestamp")
            held = (self.world.clock.now() - _time(marked)).total_seconds() if marked else 0.0
            if held > FINALIZER_SECONDS:
                yield f"{written.resource} {written.name} was held for {held:.0f} s"

    def ended(self) -> Iterator[str]:
        now = self.world.clock.now()
        for resource in RAY:
            for one in self.world.all(resource):
                marked = one["metadata"].get("deletionTimestamp")
                if marked and (now - _time(marked)).total_seconds() > FINALIZER_SECONDS:
                    yield f"{resource} {one['metadata']['name']} is deleted since {marked}: {one['metadata'].get('finalizers')}"


class WaitsAreVisible(Oracle):
    """An object that is not where its spec wants it says why: a cluster in its condition Blocked, others in a
    condition, a message or an Event."""

    name = "visible-reason"

    def ended(self) -> Iterator[str]:
        warned = _invalid(self.world)
        for resource in RAY[:3]:
            for one in self.world.all(resource):
                managed = (one.get("spec") or {}).get("managedBy", names.MANAGED_BY_OPERATOR)
                if managed != names.MANAGED_BY_OPERATOR or one["metadata"]["uid"] in warned:
                    continue
                if not _is_settled(one) and not _says_why(resource, one):
                    yield f"{resource} {one['metadata']['name']} waits and does not say why: {one.get('status')}"


class AsSpecified(Oracle):
    """A cluster that says it is ready has one head and, in each group, replicas (within their bounds) times hosts;
    with an autoscaler, at least so many. A suspended one has no Pods. A job that has ended and wants its cluster shut
    down has none, and neither has a suspended service."""

    name = "as-specified"

    def ended(self) -> Iterator[str]:
        invalid = _invalid(self.world)  # what is there stays as it was
        for one in self.world.all(CLUSTERS):
            if (
                not one["metadata"].get("deletionTimestamp")
                and one["metadata"]["uid"] not in invalid
            ):
                yield from self._cluster(one)
        for resource in (RAY_JOBS, RAY_SERVICES):
            for one in self.world.all(resource):
                kept = [each["metadata"]["name"] for each in self._owned(CLUSTERS, one)]
                if kept and _wants_no_cluster(resource, one):
                    yield f"{resource} {one['metadata']['name']} still has {', '.join(kept)}"

    def _owned(self, resource: str, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        return [
            one
            for one in self.world.all(resource)
            if (controller_of(one) or {}).get("uid") == uid
            and not one["metadata"].get("deletionTimestamp")
        ]

    def _cluster(self, cluster: Object) -> Iterator[str]:
        spec, state = cluster["spec"], (cluster.get("status") or {}).get("state")
        if names.ANNOTATION_DISABLE_HEAD_RESTART in (cluster["metadata"].get("annotations") or {}):
            return  # a job in SidecarMode ends with its head
        if state not in ("ready", "suspended") or bool(spec.get("suspend")) != (state != "ready"):
            return
        wanted = _wanted(spec) if state == "ready" else {}
        found: dict[str, int] = {}
        for pod in self._owned("pods", cluster):
            labels = pod["metadata"].get("labels") or {}
            if names.LABEL_NODE_TYPE in labels and pod["status"].get("phase") != "Failed":
                group = labels.get(names.LABEL_GROUP, "")
                found[group] = found.get(group, 0) + 1
        if spec.get("enableInTreeAutoscaling"):
            found = {group: min(count, wanted.get(group, 0)) for group, count in found.items()}
        if {key: count for key, count in found.items() if count} != wanted:
            yield f"RayCluster {cluster['metadata']['name']} has {found}, and its spec asks for {wanted}"


def _wanted(spec: Object) -> dict[str, int]:
    """Pods by group, computed from the words of the API, not by the code under test."""
    wanted = {names.HEAD_GROUP: 1}
    for group in spec.get("workerGroupSpecs") or ():
        least = group.get("minReplicas", 0)
        count = max(group.get("replicas", least), least)
        if "maxReplicas" in group:
            count = min(count, group["maxReplicas"])
        count *= group.get("numOfHosts", 1)
        if count and not group.get("suspend"):
            wanted[group["groupName"]] = count
    return wanted


def _wants_no_cluster(resource: str, one: Object) -> bool:
    spec, status = one["spec"], one.get("status") or {}
    if resource == RAY_SERVICES:
        true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
        return bool(spec.get("suspend")) and "Suspended" in true
    ended = status.get("jobDeploymentStatus") in ("Complete", "Failed")
    return ended and bool(spec.get("shutdownAfterJobFinishes")) and "deletionStrategy" not in spec


class LeaderWrites(Oracle):
    """Of two operators only the one that holds the lease writes. Nothing is said about stories in which an operator
    is suspended with its clock, or the server takes long to execute what was sent in time."""

    name = "leader-writes"

    def written(self, written: Written) -> Iterator[str]:
        leader = self.world.leader.rpartition("-")[0]
        if is_operator(written.by) and leader and written.by != leader and not self._excused():
            yield f"{written.by} wrote {written.resource} {written.name}, and {leader} leads"

    def _excused(self) -> bool:
        return any(step.do in ("pause", "slow") for step in self.world.story.steps)


class ConfigOnce(Oracle):
    """A dashboard that answers gets the Serve config that it already has at most ten times."""

    name = "config-once"

    def ended(self) -> Iterator[str]:
        for (cluster, session), times in sorted(self.world.ray.repeated.items()):
            if times > 10:
                yield f"{cluster} ({session}) got the same config {times} times"


class BacksOff(Oracle):
    """A write that the server refuses is tried again after growing pauses: an operator has at most 150 of them in a
    virtual minute. Neither are Pods that fail created again without a pause: a group gets at most 25 times as many in a
    virtual minute as its spec asks for."""

    name = "backs-off"
    MOST = 150
    MOST_TIMES = 25

    def __init__(self, world: World, history: ClusterHistory) -> None:
        super().__init__(world, history)
        self._refused: dict[tuple[str, int], int] = {}
        self._created: dict[tuple[str, str, int], int] = {}

    def after(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or written.type != "ADDED" or not is_operator(written.by):
            return
        labels = written.metadata.get("labels") or {}
        group, owner = labels.get(names.LABEL_GROUP, ""), controller_of(written.object) or {}
        what = (owner.get("uid", ""), group, int(written.at // 60))
        self._created[what] = self._created.get(what, 0) + 1
        most = self.MOST_TIMES * max(1, self.history.most_wanted(written.object, written.at))
        if self._created[what] == most + 1:
            yield f"group {group} of {owner.get('name')} got {most + 1} Pods in a minute"

    def sent(self, actor: str, sent: Sent) -> Iterator[str]:
        if sent.code in (400, 403, 404, 422):
            minute = (actor, int(sent.at // 60))
            self._refused[minute] = self._refused.get(minute, 0) + 1
            if self._refused[minute] == self.MOST:
                yield f"{actor} sent {self.MOST} refused writes in a minute, the last {sent.path}"


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
    RollsGently,
    RunsOnce,
    TerminalStays,
    AsRaySays,
    ServesOnly,
    TwoClusters,
    DeletesByUid,
    OwnObjectsOnly,
    FinalizersEnd,
    WaitsAreVisible,
    AsSpecified,
    LeaderWrites,
    ConfigOnce,
    BacksOff,
    OneJobPerTick,
    GenerationsOnly,
    NoReconcileRaises,
)

AT_THE_END = (
    (
        "no-hot-loop",
        "Requests and reconciles of everybody together are at most 5,000 in a virtual minute.",
    ),
    (
        "quiet",
        (
            "Within 20 virtual minutes after the last fault the operators come to rest: "
            "0 writes in six and a quarter minutes."
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


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _is_serve(name: str) -> bool:
    return name.endswith("-serve-svc")


def _time(text: str) -> Any:
    from manta.api.times import parse_time

    return parse_time(text)


def _invalid(world: World) -> set[str]:
    """The UIDs of objects that an Event has called invalid."""
    return {uid for reason, _, uid in world.events() if reason.startswith("Invalid")}


def _is_settled(one: Object) -> bool:
    status = one.get("status") or {}
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    if one["metadata"].get("deletionTimestamp"):
        return False
    if "jobDeploymentStatus" in status:
        return status["jobDeploymentStatus"] in ("Complete", "Failed", "Suspended", "Running")
    return bool(true & {"RayClusterProvisioned", "RayClusterSuspended", "Ready", "Suspended"})


def _says_why(resource: str, one: Object) -> bool:
    status = one.get("status") or {}
    if resource == CLUSTERS:
        return any(
            each["type"] == "Blocked" and each["status"] == "True" and each.get("message")
            for each in status.get("conditions") or ()
        )
    if status.get("message") or status.get("reason"):
        return True
    said = [each for each in status.get("conditions") or () if each.get("message")]
    return bool(said)
