"""Jobs, Deployments and their relatives."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.builtin_kinds.defaults.pods import default_template

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
    _fill(spec, "parallelism", 1)
    per_index = spec.get("backoffLimitPerIndex") is not None
    _fill(spec, "backoffLimit", _MAX_INT32 if per_index else 6)
    _fill(spec, "completionMode", "NonIndexed")
    _fill(spec, "suspend", False)
    _fill(spec, "manualSelector", False)
    policy = spec.get("podFailurePolicy")
    _fill(spec, "podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    for rule in (policy or {}).get("rules") or []:
        for pattern in rule.get("onPodConditions") or []:
            pattern["status"] = pattern.get("status") or "True"
    default_template(spec)


def identify_job(job: Json) -> None:
    """A Job finds its Pods by its own uid, unless somebody chose a selector by hand."""
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
    wanted.setdefault("batch.kubernetes.io/controller-uid", meta.get("uid", ""))


def default_cron_job(cron_job: Json) -> None:
    spec = cron_job.setdefault("spec", {})
    _fill(spec, "concurrencyPolicy", "Allow")
    _fill(spec, "suspend", False)
    _fill(spec, "successfulJobsHistoryLimit", 3)
    _fill(spec, "failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    default_template(template.setdefault("spec", {}))


def default_deployment(deployment: Json) -> None:
    spec = deployment.setdefault("spec", {})
    _fill(spec, "replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        _fill(rolling, "maxUnavailable", _QUARTER)
        _fill(rolling, "maxSurge", _QUARTER)
        strategy["rollingUpdate"] = rolling
    _fill(spec, "revisionHistoryLimit", 10)
    _fill(spec, "progressDeadlineSeconds", 600)
    default_template(spec)


def default_replica_set(replica_set: Json) -> None:
    spec = replica_set.setdefault("spec", {})
    _fill(spec, "replicas", 1)
    default_template(spec)


def default_replication_controller(controller: Json) -> None:
    spec = controller.setdefault("spec", {})
    if spec.get("template") is None:
        _fill(spec, "replicas", 1)
        return
    default_replica_set(controller)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        controller.setdefault("metadata", {}).setdefault("labels", dict(labels))


def default_stateful_set(stateful_set: Json) -> None:
    spec = stateful_set.setdefault("spec", {})
    _fill(spec, "podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        _fill(rolling, "partition", 0)
        strategy["rollingUpdate"] = rolling
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec["persistentVolumeClaimRetentionPolicy"] = retention
    _fill(spec, "replicas", 1)
    _fill(spec, "revisionHistoryLimit", 10)
    default_template(spec)
    for claim in spec.get("volumeClaimTemplates") or []:
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        _fill(claim.setdefault("spec", {}), "volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def default_daemon_set(daemon_set: Json) -> None:
    spec = daemon_set.setdefault("spec", {})
    meta = daemon_set.setdefault("metadata", {})
    meta["annotations"] = {TEMPLATE_GENERATION: "1", **(meta.get("annotations") or {})}
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        _fill(rolling, "maxUnavailable", 1)
        _fill(rolling, "maxSurge", 0)
        strategy["rollingUpdate"] = rolling
    _fill(spec, "revisionHistoryLimit", 10)
    default_template(spec)


def count_template(old: Json, new: Json) -> None:
    """A DaemonSet's template has a count of its own."""
    if (old.get("spec") or {}).get("template") != new["spec"].get("template"):
        before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
        count = int(before) + 1 if before.isdigit() else 1
        new["metadata"]["annotations"][TEMPLATE_GENERATION] = str(count)


def _fill(holder: Json, name: str, value: Any) -> None:
    if holder.get(name) is None:
        holder[name] = value
