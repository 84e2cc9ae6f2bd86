"""Validation of a RayJob, without its cluster: the rules of KubeRay (RJ1 to RJ34 in the tests)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from manta.api.ray import names
from manta.api.ray.job import (
    CLUSTER_POLICIES,
    DELETION_IMPACT,
    DeletionPolicyType,
    DeletionRule,
    JobDeploymentStatus,
    RayJob,
    RayJobSpec,
    SubmissionMode,
)
from manta.api.ray.naming import MAX_RAY_JOB_NAME
from manta.rules.settings import Settings
from manta.rules.traits import (
    has_dashboard,
    kubernetes_token_auth,
    parse_ray_version,
    ray_container_of,
)
from manta.rules.validation.gang import gang_job_violations
from manta.rules.validation.violation import Violation, name_violations

_METADATA_SINCE = (2, 6, 0)


def validate_job(job: RayJob, settings: Settings) -> list[Violation]:
    """Violations of the RayJob itself, without `runtimeEnvYAML` and the cluster."""
    return [
        *name_violations(job.metadata.name, MAX_RAY_JOB_NAME),
        *gang_job_violations(job, settings),
        *validate_job_spec(job.spec, settings),
        *_status(job),
    ]


def validate_job_spec(spec: RayJobSpec, settings: Settings, at: str = "spec") -> list[Violation]:
    """Violations of the spec, also of a RayCronJob's `jobTemplate`."""
    return [
        *_mode(spec, at),
        *_cluster(spec, at),
        *_handed_over(spec, at),
        *_limits(spec, at),
        *_shutdown(spec, at),
        *_strategy(spec, settings, at),
    ]


def _mode(spec: RayJobSpec, at: str) -> Iterator[Violation]:
    known = [mode.value for mode in SubmissionMode]
    mode = spec.submission_mode or SubmissionMode.K8S_JOB
    if mode not in known:
        yield Violation(f"{at}.submissionMode", mode, f"must be one of {', '.join(known)}")
    # K8sJobMode without a command is accepted, as in KubeRay: see lacks_entrypoint.
    needs_one = mode not in (SubmissionMode.K8S_JOB, SubmissionMode.INTERACTIVE)
    if needs_one and not spec.entrypoint.strip():
        yield Violation(
            f"{at}.entrypoint", spec.entrypoint, "name the command to run on the cluster"
        )
    retries = spec.backoff_limit or 0
    if mode == SubmissionMode.INTERACTIVE and retries > 0:
        cure = "InteractiveMode submits nothing that could be retried: remove it"
        yield Violation(f"{at}.backoffLimit", retries, cure)
    if mode != SubmissionMode.SIDECAR:
        yield from _submitter_template(spec, at)
        return
    for field, value in (
        ("submitterPodTemplate", spec.submitter_pod_template),
        ("submitterConfig", spec.submitter_config),
    ):
        if value is not None:
            cure = "SidecarMode has no submitter Pod: remove it, or use K8sJobMode"
            yield Violation(f"{at}.{field}", "(set)", cure)
    yield from _sidecar_head(spec, at)


def _submitter_template(spec: RayJobSpec, at: str) -> Iterator[Violation]:
    template = spec.submitter_pod_template
    if template is not None and not (template.get("spec") or {}).get("containers"):
        field = f"{at}.submitterPodTemplate.spec.containers"
        cure = "name the container that submits the job, or remove submitterPodTemplate"
        yield Violation(field, None, cure)


def lacks_entrypoint(spec: RayJobSpec) -> bool:
    """Whether the submitter has nothing to submit. Accepted with a warning; the job fails later."""
    mode = spec.submission_mode or SubmissionMode.K8S_JOB
    if mode != SubmissionMode.K8S_JOB or spec.entrypoint.strip():
        return False
    return not ray_container_of(spec.submitter_pod_template or {}).get("command")


def _sidecar_head(spec: RayJobSpec, at: str) -> Iterator[Violation]:
    if spec.ray_cluster_spec is None:
        return
    pod = spec.ray_cluster_spec.head_group_spec.template.get("spec") or {}
    policy = pod.get("restartPolicy") or ""
    if policy not in ("", "Never"):
        field = f"{at}.rayClusterSpec.headGroupSpec.template.spec.restartPolicy"
        yield Violation(
            field, policy, "SidecarMode needs Never: a restarted head would rerun the job"
        )


def _cluster(spec: RayJobSpec, at: str) -> Iterator[Violation]:
    selector = spec.cluster_selector
    if spec.ray_cluster_spec is None and not selector:
        cure = "set rayClusterSpec for a cluster of its own, or clusterSelector to use one"
        yield Violation(f"{at}.rayClusterSpec", None, cure)
    if spec.ray_cluster_spec is not None and kubernetes_token_auth(spec.ray_cluster_spec):
        field = f"{at}.rayClusterSpec.authOptions.enableK8sTokenAuth"
        yield Violation(field, True, "not supported for RayJob: use a token Secret instead")
    if not selector:
        return
    if not selector.get(names.LABEL_CLUSTER):
        cure = f"must hold the name of a RayCluster under the key {names.LABEL_CLUSTER}"
        yield Violation(f"{at}.clusterSelector", dict(selector), cure)
    forbidden = (
        ("suspend", spec.suspend, spec.suspend),
        ("submissionMode", spec.submission_mode, spec.submission_mode == SubmissionMode.SIDECAR),
        ("backoffLimit", spec.backoff_limit, (spec.backoff_limit or 0) > 0),
    )
    for field, value, wrong in forbidden:
        if wrong:
            cure = "cannot be used with clusterSelector: that cluster is not this RayJob's own"
            yield Violation(f"{at}.{field}", value, cure)


def _handed_over(spec: RayJobSpec, at: str) -> Iterator[Violation]:
    """What Ray would refuse, reported before a cluster is created."""
    if spec.entrypoint_resources:
        try:
            msgspec.json.decode(spec.entrypoint_resources, type=dict[str, float])
        except msgspec.DecodeError:
            cure = 'must be a JSON map of names to numbers, such as {"accelerator": 1}'
            yield Violation(f"{at}.entrypointResources", spec.entrypoint_resources, cure)
    cluster = spec.ray_cluster_spec
    if cluster is None or spec.cluster_selector:
        return
    if not has_dashboard(cluster):
        field = f"{at}.rayClusterSpec.headGroupSpec.rayStartParams.include-dashboard"
        yield Violation(field, "false", "the dashboard is what takes jobs: remove it")
    version = parse_ray_version(cluster.ray_version) if cluster.ray_version else None
    if spec.metadata and version is not None and version < _METADATA_SINCE:
        cure = f"needs Ray 2.6.0 or newer, and rayVersion is {cluster.ray_version}"
        yield Violation(f"{at}.metadata", dict(spec.metadata), cure)


def _limits(spec: RayJobSpec, at: str) -> Iterator[Violation]:
    for field, value in (
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("preRunningDeadlineSeconds", spec.pre_running_deadline_seconds),
    ):
        if value is not None and value <= 0:
            yield Violation(f"{at}.{field}", value, "must be a positive number of seconds")
    if (spec.backoff_limit or 0) < 0:
        yield Violation(f"{at}.backoffLimit", spec.backoff_limit, "must not be negative")


def _shutdown(spec: RayJobSpec, at: str) -> Iterator[Violation]:
    ttl = spec.ttl_seconds_after_finished
    if spec.suspend and not spec.shutdown_after_job_finishes:
        cure = "needs shutdownAfterJobFinishes: true, because suspending deletes the cluster"
        yield Violation(f"{at}.suspend", True, cure)
    if ttl < 0:
        yield Violation(f"{at}.ttlSecondsAfterFinished", ttl, "must not be negative")
    if ttl > 0 and not spec.shutdown_after_job_finishes:
        cure = "has no effect without shutdownAfterJobFinishes: true"
        yield Violation(f"{at}.ttlSecondsAfterFinished", ttl, cure)


# ── deletion strategy ────────────────────────────────────────────────────────────────────


def _strategy(spec: RayJobSpec, settings: Settings, at: str) -> Iterator[Violation]:
    strategy, field = spec.deletion_strategy, f"{at}.deletionStrategy"
    if strategy is None:
        return
    if not settings.gates.ray_job_deletion_policy:
        yield Violation(field, "(set)", "needs the feature gate RayJobDeletionPolicy")
    legacy = strategy.on_success is not None or strategy.on_failure is not None
    if strategy.deletion_rules and legacy:
        cure = "deletionRules and onSuccess/onFailure exclude each other: keep the rules"
        yield Violation(field, "(both)", cure)
    if not strategy.deletion_rules and not legacy:
        yield Violation(field, "(empty)", "set deletionRules")
    if strategy.deletion_rules and spec.shutdown_after_job_finishes:
        cure = "excludes deletionRules: say it with a DeleteCluster rule"
        yield Violation(f"{at}.shutdownAfterJobFinishes", True, cure)
    if legacy:
        yield from _legacy(spec, field)
    for number, rule in enumerate(strategy.deletion_rules):
        yield from _rule(spec, rule, f"{field}.deletionRules[{number}]")
    yield from _order_of(strategy.deletion_rules, field)


def _legacy(spec: RayJobSpec, field: str) -> Iterator[Violation]:
    strategy = spec.deletion_strategy
    assert strategy is not None
    for name, policy in (("onSuccess", strategy.on_success), ("onFailure", strategy.on_failure)):
        where = f"{field}.{name}"
        if policy is None or not policy.policy:
            yield Violation(f"{where}.policy", None, "both onSuccess and onFailure need a policy")
            continue
        yield from _policy(spec, policy.policy, f"{where}.policy")
        if spec.shutdown_after_job_finishes and policy.policy == DeletionPolicyType.DELETE_NONE:
            cure = "contradicts shutdownAfterJobFinishes: true"
            yield Violation(f"{where}.policy", policy.policy, cure)


def _policy(spec: RayJobSpec, policy: str, field: str) -> Iterator[Violation]:
    if spec.cluster_selector and policy in CLUSTER_POLICIES:
        cure = "with clusterSelector the cluster is not this RayJob's own, and is never deleted"
        yield Violation(field, policy, cure)
    cluster = spec.ray_cluster_spec
    autoscaled = cluster is not None and bool(cluster.enable_in_tree_autoscaling)
    if policy == DeletionPolicyType.DELETE_WORKERS and autoscaled:
        cure = "the autoscaler would bring the workers back: use DeleteCluster"
        yield Violation(field, policy, cure)


def _rule(spec: RayJobSpec, rule: DeletionRule, field: str) -> Iterator[Violation]:
    condition = rule.condition
    if bool(condition.job_status) == bool(condition.job_deployment_status):
        cure = "set exactly one of jobStatus and jobDeploymentStatus"
        yield Violation(f"{field}.condition", "(both or neither)", cure)
    if condition.ttl_seconds < 0:
        where = f"{field}.condition.ttlSeconds"
        yield Violation(where, condition.ttl_seconds, "must not be negative")
    yield from _policy(spec, rule.policy, f"{field}.policy")


def _order_of(rules: tuple[DeletionRule, ...], field: str) -> Iterator[Violation]:
    """For each condition: no policy twice; workers before the cluster before the RayJob."""
    chosen: dict[str, dict[str, int]] = {}
    for number, rule in enumerate(rules):
        condition = rule.condition.job_status or rule.condition.job_deployment_status or ""
        times = chosen.setdefault(condition, {})
        if rule.policy in times:
            where = f"{field}.deletionRules[{number}]"
            yield Violation(where, rule.policy, f"appears twice for {condition}: keep one")
        times[rule.policy] = rule.condition.ttl_seconds
    for condition, times in chosen.items():
        for earlier, later in pairwise(
            [policy for policy in DELETION_IMPACT[1:] if policy in times]
        ):
            if times[earlier] > times[later]:
                cure = f"for {condition}, {earlier} must not come after {later}"
                yield Violation(f"{field}.deletionRules", times[earlier], cure)


def _status(job: RayJob) -> Iterator[Violation]:
    waiting = job.status.job_deployment_status == JobDeploymentStatus.WAITING
    if waiting and job.spec.submission_mode != SubmissionMode.INTERACTIVE:
        cure = "only InteractiveMode waits: set submissionMode back"
        yield Violation("status.jobDeploymentStatus", "Waiting", cure)
