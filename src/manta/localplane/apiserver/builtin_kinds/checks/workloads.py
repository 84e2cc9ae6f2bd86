"""Jobs, CronJobs, Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from __future__ import annotations

import zoneinfo
from functools import lru_cache
from typing import Any

from manta.api.schedule import ScheduleError, parse_schedule
from manta.api.selectors import from_object
from manta.api.well_known import LABEL_JOB_UID
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.pods import check_template
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.schema.causes import (
    OMITTED,
    Cause,
    compact_json,
    invalid,
    not_supported,
    required,
)

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_STRATEGIES = ("Recreate", "RollingUpdate")
_MUTABLE_FIELDS = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
"""The mutable fields of a StatefulSet's spec, in the order of kube-apiserver's error."""
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


def check_job(job: Json, old: Json | None) -> Causes:
    spec = job.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return
    yield from _check_generated(job, spec)
    yield from _check_matched_spec(spec)
    if old is not None:  # kube-apiserver validates the spec twice in an update
        yield from _check_matched_spec(spec)
        yield from _check_job_change(spec, old.get("spec") or {}, old)


def _check_matched_spec(spec: Json) -> Causes:
    yield from check_job_spec(spec, "spec")
    if spec.get("selector"):
        yield from _check_match(spec["selector"], spec.get("template") or {})


def check_job_spec(spec: Json, path: str) -> Causes:
    for name in _COUNTS:
        yield from rules.not_negative(f"{path}.{name}", spec.get(name))
    mode = spec.get("completionMode") or "NonIndexed"
    if mode not in {"NonIndexed", "Indexed"}:
        yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        detail = "when completion mode is Indexed"
        yield required(f"{path}.completions", detail)
    template = spec.get("template") or {}
    yield from check_template(template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    field = f"{path}.template.spec.restartPolicy"
    if policy in {"", "Always"}:
        yield required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(field, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(field, policy, detail)


def _check_generated(job: Json, spec: Json) -> Causes:
    """Labels that the server generates must have their generated values."""
    if spec.get("manualSelector"):
        if spec.get("selector") is None:
            yield required("spec.selector")
        return
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    meta = job["metadata"]
    for prefix in ("", "batch.kubernetes.io/"):
        for key, value in (("controller-uid", meta.get("uid")), ("job-name", meta.get("name"))):
            if labels.get(prefix + key) != value:
                field = f"spec.template.metadata.labels[{prefix}{key}]"
                yield invalid(field, labels, f"must be '{value}'")
    own = {"matchLabels": {LABEL_JOB_UID: meta.get("uid")}}
    selector = spec.get("selector")
    if selector and selector not in (own, {"matchLabels": {"controller-uid": meta.get("uid")}}):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")


def _check_job_change(spec: Json, old: Json, job: Json) -> Causes:
    indexed = old.get("completionMode") == "Indexed"
    if not (indexed and spec.get("completions") == spec.get("parallelism")):
        yield from _same(spec, old, "completions")
    yield from _same(spec, old, "selector")
    before = old.get("template") or {}
    if old.get("suspend") and not (job.get("status") or {}).get("startTime"):
        before = _with_scheduling(before, spec.get("template") or {})
    if spec.get("template") != before:
        yield invalid("spec.template", OMITTED, "field is immutable")
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"):
        yield from _same(spec, old, name)


def _same(spec: Json, old: Json, name: str) -> Causes:
    return rules.immutable(f"spec.{name}", spec.get(name), old.get(name))


def _with_scheduling(template: Json, new: Json) -> dict[str, Any]:
    """The old template with the new scheduling fields, which a suspended Job may change."""
    spec, wanted = dict(template.get("spec") or {}), new.get("spec") or {}
    for name in (*_SCHEDULING, "affinity"):
        spec.pop(name, None)
        if name in wanted:
            spec[name] = wanted[name]
    return {**template, "metadata": new.get("metadata") or {}, "spec": spec}


def check_cron_job(cron_job: Json, _: Json | None) -> Causes:
    spec = cron_job.get("spec") or {}
    if not spec.get("schedule"):
        yield required("spec.schedule")
    else:
        yield from _check_schedule(spec["schedule"])
    yield from _check_time_zone(spec.get("timeZone"))
    policies = ("Allow", "Forbid", "Replace")
    yield from rules.one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy", ""), policies)
    for name in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from rules.not_negative(f"spec.{name}", spec.get(name))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    yield from check_job_spec(template, "spec.jobTemplate.spec")


def _check_schedule(schedule: str) -> Causes:
    parts = schedule.split()
    if len(parts) != 5 and not schedule.startswith("@"):
        detail = f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
        yield invalid("spec.schedule", schedule, detail)
        return
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        yield invalid("spec.schedule", schedule, f"{error.problem}: {error.value}")


def _check_time_zone(name: str | None) -> Causes:
    if name is None:
        return
    if not name or name.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        yield invalid(
            "spec.timeZone",
            name,
            "timeZone must be nil or non-empty string" if not name else detail,
        )
    elif not _is_time_zone(name):
        yield invalid("spec.timeZone", name, f"unknown time zone {name}")


@lru_cache(maxsize=64)
def _is_time_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return (
            not zoneinfo.available_timezones()
        )  # without a time zone database every name is accepted
    return True


def check_deployment(deployment: Json, old: Json | None) -> Causes:
    yield from _check_replicated(deployment, old, "deployment")
    spec = deployment.get("spec") or {}
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in _STRATEGIES:
        yield from _bad_strategy(strategy)
    if strategy.get("type") == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield Cause("FieldValueForbidden", f"Forbidden: {detail}", "spec.strategy.rollingUpdate")
    elif rolling:
        yield from _check_rolling(rolling, "spec.strategy.rollingUpdate")
    for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from rules.not_negative(f"spec.{name}", spec.get(name))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and 0 <= deadline <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        yield invalid("spec.progressDeadlineSeconds", deadline, detail)


def _bad_strategy(strategy: Json) -> Causes:
    """kube-apiserver shows its internal form of the strategy here."""
    rolling = compact_json(strategy.get("rollingUpdate"))
    shown = f'{{"Type":"{strategy.get("type", "")}","RollingUpdate":{rolling}}}'
    supported = ", ".join(f'"{name}"' for name in _STRATEGIES)
    message = f"Unsupported value: {shown}: supported values: {supported}"
    yield Cause("FieldValueNotSupported", message, "spec.strategy")


def _check_rolling(rolling: Json, path: str) -> Causes:
    surge, missing = rolling.get("maxSurge"), rolling.get("maxUnavailable")
    yield from rules.count_or_percent(f"{path}.maxUnavailable", missing, bounded=False)
    yield from rules.count_or_percent(f"{path}.maxSurge", surge, bounded=False)
    if _is_zero(surge) and _is_zero(missing):
        yield invalid(f"{path}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0")
    if isinstance(missing, str) and missing.endswith("%") and rules.amount_of(missing) > 100:
        yield invalid(f"{path}.maxUnavailable", missing, "must not be greater than 100%")


def _is_zero(amount: int | str | None) -> bool:
    return amount is not None and rules.amount_of(amount) == 0


def _check_update_strategy(workload: Json, names: tuple[str, ...]) -> Causes:
    spec = workload.get("spec") or {}
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    for name in names:
        field = f"spec.updateStrategy.rollingUpdate.{name}"
        yield from rules.count_or_percent(field, rolling.get(name))


def check_replica_set(replica_set: Json, old: Json | None) -> Causes:
    yield from _check_replicated(replica_set, old, "replicaset")
    yield from rules.not_negative(
        "spec.minReadySeconds", (replica_set.get("spec") or {}).get("minReadySeconds")
    )


def check_stateful_set(stateful_set: Json, old: Json | None) -> Causes:
    yield from _check_replicated(stateful_set, old, "statefulset")
    yield from _check_update_strategy(stateful_set, ("maxUnavailable",))
    if old is not None:
        before, after = (_fixed(one.get("spec") or {}) for one in (old, stateful_set))
        if before != after:
            *others, last = (f"'{name}'" for name in _MUTABLE_FIELDS)
            detail = (
                "updates to statefulset spec for fields other than "
                f"{', '.join(others)} and {last} are forbidden"
            )
            yield Cause("FieldValueForbidden", f"Forbidden: {detail}", "spec")


def _fixed(spec: Json) -> Json:
    """The immutable fields of a StatefulSet's spec."""
    return {name: value for name, value in spec.items() if name not in _MUTABLE_FIELDS}


def check_daemon_set(daemon_set: Json, old: Json | None) -> Causes:
    yield from _check_replicated(daemon_set, old, "daemonset")
    yield from _check_update_strategy(daemon_set, ("maxUnavailable", "maxSurge"))


def _check_replicated(workload: Json, old: Json | None, kind: str) -> Causes:
    spec = workload.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return
    yield from rules.not_negative("spec.replicas", spec.get("replicas"))
    wanted = spec.get("selector")
    template = spec.get("template") or {}
    if wanted is None:
        yield required("spec.selector")
    else:
        yield from rules.selector("spec.selector", wanted)
        if not wanted.get("matchLabels") and not wanted.get("matchExpressions"):
            yield invalid("spec.selector", dict(wanted), f"empty selector is invalid for {kind}")
    yield from _check_match(wanted, template)
    yield from check_template(template, "spec.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if old is not None:
        yield from rules.immutable("spec.selector", wanted, (old.get("spec") or {}).get("selector"))


def _check_match(wanted: Json | None, template: Json) -> Causes:
    labels = (template.get("metadata") or {}).get("labels")
    try:
        matches = from_object(wanted).matches(labels or {})
    except ValueError:
        return  # reported already, term by term
    if not matches:
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, detail)
