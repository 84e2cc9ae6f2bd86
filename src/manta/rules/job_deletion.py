"""What is deleted after a RayJob has ended, and when. Pure.

Of the rules that are due, the one that deletes most is applied: after a downtime of the operator the stages
are not replayed.

A job that was stopped ends as STOPPED, which no rule can match. By default its cluster is deleted when the last
rule would have been due. If the end could have been matched but was not (say, only success has a rule), the
cluster stays, and `unmatched` reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from manta.api.ray.job import (
    CLUSTER_POLICIES,
    DELETION_IMPACT,
    DeletionPolicyType,
    DeletionRule,
    DeletionStrategy,
    JobDeploymentStatus,
    JobStatus,
    RayJob,
)
from manta.api.times import format_time, parse_time
from manta.rules.settings import Settings

DEFAULT: Final = "the default for an end that no deletion rule can name"


@dataclass(frozen=True, slots=True)
class Deletion:
    policy: DeletionPolicyType
    at: datetime
    why: str


def deletions(job: RayJob, settings: Settings) -> tuple[Deletion, ...]:
    """All deletions for this end of the job, soonest first. A selected cluster is never deleted."""
    if not job.status.end_time:
        return ()
    ended = parse_time(job.status.end_time)
    found = sorted(_called_for(job, ended, settings), key=lambda one: one.at)
    if job.spec.cluster_selector:
        # KubeRay deletes nothing here. A rule that deletes the RayJob itself still applies.
        spared = {DeletionPolicyType.DELETE_NONE, *CLUSTER_POLICIES}
        has_strategy = job.spec.deletion_strategy is not None
        return tuple(one for one in found if has_strategy and one.policy not in spared)
    return tuple(found)


def unmatched(job: RayJob, settings: Settings) -> str:
    """Why no rule matches this end; empty if one does, or if there are no rules."""
    strategy = job.spec.deletion_strategy
    if strategy is None or not job.status.end_time or job.spec.cluster_selector:
        return ""
    end = job.status.job_status or job.status.job_deployment_status
    found = deletions(job, settings)
    if found and found[0].why is DEFAULT:
        return f"no deletion rule can name an end as {end}: {_spoken(found[0])}"
    if not found and strategy.deletion_rules:
        return f"no deletion rule names an end as {end}: the RayCluster stays until it is deleted"
    return ""


def _spoken(deletion: Deletion) -> str:
    return f"the RayCluster is deleted at {format_time(deletion.at)}"


def due(
    job: RayJob, now: datetime, achieved: frozenset[str], settings: Settings
) -> Deletion | None:
    """The deletion that deletes most, of those that are due and not done."""
    ripe = [one for one in deletions(job, settings) if one.at <= now and one.policy not in achieved]
    return max(ripe, key=lambda one: DELETION_IMPACT.index(one.policy), default=None)


def next_after(job: RayJob, now: datetime, settings: Settings) -> timedelta | None:
    """How long until the next deletion is due."""
    later = [one.at - now for one in deletions(job, settings) if one.at > now]
    return min(later, default=None)


def _called_for(job: RayJob, ended: datetime, settings: Settings) -> Iterator[Deletion]:
    strategy = job.spec.deletion_strategy
    ttl = timedelta(seconds=job.spec.ttl_seconds_after_finished)
    if strategy is not None and _was_stopped(job):
        yield from _default(strategy, ended, ttl)
    elif strategy is not None and strategy.deletion_rules:
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


def _was_stopped(job: RayJob) -> bool:
    """Whether a user stopped it; a job stopped by a deadline has failed, which rules can match."""
    stage, status = job.status.job_deployment_status, job.status.job_status
    return stage == JobDeploymentStatus.COMPLETE and status == JobStatus.STOPPED


def _default(strategy: DeletionStrategy, ended: datetime, ttl: timedelta) -> Iterator[Deletion]:
    """For an end that no rule can match; nothing if the strategy never deletes anything."""
    rules = strategy.deletion_rules
    named = [one.policy for one in (*rules, strategy.on_success, strategy.on_failure) if one]
    if all(policy == DeletionPolicyType.DELETE_NONE for policy in named):
        return
    if rules:
        ttl = timedelta(seconds=max(rule.condition.ttl_seconds for rule in rules))
    yield Deletion(DeletionPolicyType.DELETE_CLUSTER, ended + ttl, DEFAULT)


def _legacy_policy(job: RayJob) -> DeletionPolicyType | None:
    """The policy of `onSuccess` or `onFailure`, by the RayJob's status: it can fail (say, by a deadline) without a status from Ray."""
    strategy = job.spec.deletion_strategy
    if strategy is None:
        return None
    failed = job.status.job_deployment_status == JobDeploymentStatus.FAILED
    chosen = strategy.on_failure if failed else strategy.on_success
    return DeletionPolicyType(chosen.policy) if chosen and chosen.policy else None
