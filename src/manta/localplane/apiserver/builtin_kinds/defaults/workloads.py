"""Defaults of Jobs, Deployments and the other workloads."""

from __future__ import annotations

from typing import Any

from manta.api.well_known import LABEL_JOB_UID
from manta.localplane.apiserver.builtin_kinds.defaults.pods import default_template, set_default

Json = dict[str, Any]

_MAX_INT32 = 2**31 - 1
_QUARTER = "25%"
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def default_job(job: Json) -> None:
    default_job_spec(job.setdefault("spec", {}))
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job.get("metadata", {}).get("labels"):
        job.setdefault("metadata", {})["labels"] = dict(labels)


def default_job_spec(spec: Json) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    set_default(spec, "parallelism", 1)
    per_index = spec.get("backoffLimitPerIndex") is not None
    set_default(spec, "backoffLimit", _MAX_INT32 if per_index else 6)
    set_default(spec, "completionMode", "NonIndexed")
    set_default(spec, "suspend", False)
    set_default(spec, "manualSelector", False)
    policy = spec.get("podFailurePolicy")
    set_default(spec, "podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    for rule in (policy or {}).get("rules") or []:
        for pattern in rule.get("onPodConditions") or []:
            pattern["status"] = pattern.get("status") or "True"
    default_template(spec)


def generate_selector(job: Json) -> None:
    """Generate the selector of a Job from its uid, unless `manualSelector` is set."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    template = spec["template"]["metadata"]
    labels = template.setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels.setdefault(f"{prefix}controller-uid", meta.get("uid", ""))
        labels.setdefault(f"{prefix}job-name", meta.get("name", ""))
    selector = spec.setdefault("selector", {}) if spec.get("selector") else {}
    spec["selector"] = selector
    wanted = selector.setdefault("matchLabels", {})
    wanted.setdefault(LABEL_JOB_UID, meta.get("uid", ""))


def default_cron_job(cron_job: Json) -> None:
    spec = cron_job.setdefault("spec", {})
    set_default(spec, "concurrencyPolicy", "Allow")
    set_default(spec, "suspend", False)
    set_default(spec, "successfulJobsHistoryLimit", 3)
    set_default(spec, "failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    default_template(template.setdefault("spec", {}))


def default_deployment(deployment: Json) -> None:
    spec = deployment.setdefault("spec", {})
    set_default(spec, "replicas", 1)
    _default_rolling_update(spec, "strategy", maxUnavailable=_QUARTER, maxSurge=_QUARTER)
    set_default(spec, "revisionHistoryLimit", 10)
    set_default(spec, "progressDeadlineSeconds", 600)
    default_template(spec)


def _default_rolling_update(spec: Json, field: str, **defaults: str | int) -> None:
    strategy = spec.setdefault(field, {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        for name, value in defaults.items():
            set_default(strategy["rollingUpdate"], name, value)


def default_replica_set(replica_set: Json) -> None:
    spec = replica_set.setdefault("spec", {})
    set_default(spec, "replicas", 1)
    default_template(spec)


def default_replication_controller(controller: Json) -> None:
    spec = controller.setdefault("spec", {})
    if spec.get("template") is None:
        set_default(spec, "replicas", 1)
        return
    default_replica_set(controller)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        controller.setdefault("metadata", {}).setdefault("labels", dict(labels))


def default_stateful_set(stateful_set: Json) -> None:
    spec = stateful_set.setdefault("spec", {})
    set_default(spec, "podManagementPolicy", "OrderedReady")
    _default_rolling_update(spec, "updateStrategy", partition=0)
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec["persistentVolumeClaimRetentionPolicy"] = retention
    set_default(spec, "replicas", 1)
    set_default(spec, "revisionHistoryLimit", 10)
    default_template(spec)
    for claim in spec.get("volumeClaimTemplates") or []:
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        set_default(claim.setdefault("spec", {}), "volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def default_daemon_set(daemon_set: Json) -> None:
    spec = daemon_set.setdefault("spec", {})
    meta = daemon_set.setdefault("metadata", {})
    meta["annotations"] = {TEMPLATE_GENERATION: "1", **(meta.get("annotations") or {})}
    _default_rolling_update(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    set_default(spec, "revisionHistoryLimit", 10)
    default_template(spec)


def count_template(old: Json, new: Json) -> None:
    """Count changes of a DaemonSet's template in an annotation."""
    if (old.get("spec") or {}).get("template") != new["spec"].get("template"):
        before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
        count = int(before) + 1 if before.isdigit() else 1
        new["metadata"]["annotations"][TEMPLATE_GENERATION] = str(count)
