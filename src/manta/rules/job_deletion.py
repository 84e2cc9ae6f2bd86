"""What is deleted after a RayJob's end, and when. Pure arithmetic on rules and times.

Of the rules that are due, the most far-reaching is carried out: after a downtime the user wants
the resources back, and not the stages replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from manta.api.ray.job import DeletionPolicyType, DeletionRule, JobStatus, RayJob
from manta.api.times import parse_time
from manta.rules.settings import Settings

IMPACT: Final = (
    DeletionPolicyType.DELETE_NONE,
    DeletionPolicyType.DELETE_WORKERS,
    DeletionPolicyType.DELETE_CLUSTER,
    DeletionPolicyType.DELETE_SELF,
)


@dataclass(frozen=True, slots=True)
class Deletion:
    policy: DeletionPolicyType
    at: datetime
    why: str


def deletions(job: RayJob, settings: Settings) -> tuple[Deletion, ...]:
    """All that this job's end calls for, soonest first. Nothing on a borrowed cluster."""
    if job.spec.cluster_selector or not job.status.end_time:
        return ()
    ended = parse_time(job.status.end_time)
    return tuple(sorted(_called_for(job, ended, settings), key=lambda one: one.at))


def due(
    job: RayJob, now: datetime, achieved: frozenset[str], settings: Settings
) -> Deletion | None:
    """The most far-reaching deletion whose time has come and which is not done yet."""
    ripe = [one for one in deletions(job, settings) if one.at <= now and one.policy not in achieved]
    return max(ripe, key=lambda one: IMPACT.index(one.policy), default=None)


def next_after(job: RayJob, now: datetime, settings: Settings) -> timedelta | None:
    """How long until the next deletion is due."""
    later = [one.at - now for one in deletions(job, settings) if one.at > now]
    return min(later, default=None)


def _called_for(job: RayJob, ended: datetime, settings: Settings) -> Iterator[Deletion]:
    strategy = job.spec.deletion_strategy
    ttl = timedelta(seconds=job.spec.ttl_seconds_after_finished)
    if strategy is not None and strategy.deletion_rules:
        yield from _by_rules(job, ended, strategy.deletion_rules)
    elif strategy is not None and (legacy := _legacy_policy(job)):
        yield Deletion(legacy, ended + ttl, "deletionStrategy for this end of the job")
    elif job.spec.shutdown_after_job_finishes:
        policy = DeletionPolicyType.DELETE_CLUSTER
        if settings.delete_ray_job_after_finish:
            policy = DeletionPolicyType.DELETE_SELF
        yield Deletion(policy, ended + ttl, "shutdownAfterJobFinishes")


def _by_rules(job: RayJob, ended: datetime, rules: tuple[DeletionRule, ...]) -> Iterator[Deletion]:
    for rule in rules:
        wanted = rule.condition.job_status or rule.condition.job_deployment_status
        if wanted in (job.status.job_status, job.status.job_deployment_status):
            at = ended + timedelta(seconds=rule.condition.ttl_seconds)
            why = f"deletionRules: {wanted} for {rule.condition.ttl_seconds} s"
            yield Deletion(DeletionPolicyType(rule.policy), at, why)


def _legacy_policy(job: RayJob) -> DeletionPolicyType | None:
    strategy = job.spec.deletion_strategy
    if strategy is None:
        return None
    chosen = {
        JobStatus.SUCCEEDED: strategy.on_success,
        JobStatus.FAILED: strategy.on_failure,
    }.get(JobStatus(job.status.job_status))
    return DeletionPolicyType(chosen.policy) if chosen and chosen.policy else None
