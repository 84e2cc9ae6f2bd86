"""Rows of what runs Pods: Jobs, CronJobs, Deployments and their kin."""

from __future__ import annotations

from datetime import datetime
from itertools import zip_longest
from typing import Any

from manta.api.ages import age
from manta.api.selectors import SelectorError, from_object
from manta.api.times import parse_time
from manta.localplane.apiserver.tables.columns import object_age, since

Object = dict[str, Any]


def job_cells(job: Object, now: datetime) -> list[Any]:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    return [
        job["metadata"]["name"],
        _job_status(job, status),
        _completions(spec, status),
        _job_duration(status, now),
        object_age(job, now),
        *_template(spec),
        selector_text(spec.get("selector")),
    ]


def _job_status(job: Object, status: Object) -> str:
    true = {
        one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"
    }
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if name in true:
            return name
    return "Running"


def _completions(spec: Object, status: Object) -> str:
    done = int(status.get("succeeded") or 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = int(spec.get("parallelism") or 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(status: Object, now: datetime) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return age(parse_time(start), parse_time(end) if end else now)


def cron_job_cells(job: Object, now: datetime) -> list[Any]:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    last = status.get("lastScheduleTime")
    below = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        job["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or []),
        since(last, now) if last else "<none>",
        object_age(job, now),
        *_template(below),
        selector_text(below.get("selector")),
    ]


def deployment_cells(deployment: Object, now: datetime) -> list[Any]:
    spec, status = deployment.get("spec") or {}, deployment.get("status") or {}
    return [
        deployment["metadata"]["name"],
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        object_age(deployment, now),
        *_template(spec),
        selector_text(spec.get("selector")),
    ]


def replica_set_cells(replica_set: Object, now: datetime) -> list[Any]:
    spec, status = replica_set.get("spec") or {}, replica_set.get("status") or {}
    selector = spec.get("selector")
    if replica_set.get("kind") == "ReplicationController":
        selector = {"matchLabels": selector or {}}
    return [
        replica_set["metadata"]["name"],
        spec.get("replicas", 1),
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        object_age(replica_set, now),
        *_template(spec),
        selector_text(selector),
    ]


def stateful_set_cells(stateful_set: Object, now: datetime) -> list[Any]:
    spec, status = stateful_set.get("spec") or {}, stateful_set.get("status") or {}
    return [
        stateful_set["metadata"]["name"],
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas', 1)}",
        object_age(stateful_set, now),
        *_template(spec),
    ]


def daemon_set_cells(daemon_set: Object, now: datetime) -> list[Any]:
    spec, status = daemon_set.get("spec") or {}, daemon_set.get("status") or {}
    node_selector = ((spec.get("template") or {}).get("spec") or {}).get("nodeSelector") or {}
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        daemon_set["metadata"]["name"],
        *(status.get(name) or 0 for name in counts),
        pairs(node_selector),
        object_age(daemon_set, now),
        *_template(spec),
        selector_text(spec.get("selector")),
    ]


def _template(spec: Object) -> tuple[str, str]:
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
    names = ",".join(one.get("name", "") for one in containers)
    return names, ",".join(one.get("image", "") for one in containers)


def selector_text(selector: Object | None) -> str:
    try:
        return str(from_object(selector)) or "<none>" if selector else "<none>"
    except SelectorError:
        return "<error>"


def pairs(labels: Object) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"


def pod_template_cells(template: Object, _: datetime) -> list[Any]:
    labels = ((template.get("template") or {}).get("metadata") or {}).get("labels") or {}
    shown = ",".join(f"{name}={labels[name]}" for name in sorted(labels)) or "<none>"
    return [template["metadata"]["name"], *_template(template), shown]


def autoscaler_cells(autoscaler: Object, now: datetime) -> list[Any]:
    spec, status = autoscaler.get("spec") or {}, autoscaler.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    return [
        autoscaler["metadata"]["name"],
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec, status),
        str(spec["minReplicas"]) if spec.get("minReplicas") is not None else "<unset>",
        int(spec.get("maxReplicas") or 0),
        int(status.get("currentReplicas") or 0),
        object_age(autoscaler, now),
    ]


def _targets(spec: Object, status: Object) -> str:
    """Such as `cpu: 50%/80%`: the current value and the target."""
    shown = []
    for metric, now in zip_longest(spec.get("metrics") or (), status.get("currentMetrics") or ()):
        resource = (metric or {}).get("resource")
        if not resource:
            continue
        wanted = resource.get("target") or {}
        current = ((now or {}).get("resource") or {}).get("current") or {}
        sign = "%" if wanted.get("averageUtilization") is not None else ""
        name = "averageUtilization" if sign else "averageValue"
        found = f"{current[name]}{sign}" if current.get(name) is not None else "<unknown>"
        shown.append(f"{resource.get('name')}: {found}/{wanted.get(name, '<auto>')}{sign}")
    return ", ".join(shown) or "<none>"
