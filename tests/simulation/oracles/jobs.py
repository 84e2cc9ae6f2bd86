"""About RayJobs and RayCronJobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from manta.api.ray import names
from simulation.actions import ACTIONS
from simulation.history import ClusterHistory
from simulation.oracles.oracle import CLUSTERS, RAY_JOBS, Object, Oracle, controller_of
from simulation.plane import Written

if TYPE_CHECKING:
    from simulation.world import World


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
