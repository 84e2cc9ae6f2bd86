"""The state of an object in one word, and the reason in one line. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import msgspec

from manta.client.readiness import judge

MAX_LENGTH = 160
ELLIPSIS = "…"

JOB_STATES: Mapping[str, str] = {
    "": "new",
    "Initializing": "starting",
    "Waiting": "waiting",
    "Running": "running",
    "Retrying": "retrying",
    "Suspending": "suspending",
    "Suspended": "suspended",
    "Complete": "finished",
    "Failed": "failed",
    "ValidationFailed": "invalid",
}
QUIET = frozenset(("finished", "suspended", "running"))
"""States of a job that are shown without a reason."""


@dataclass(frozen=True, slots=True)
class State:
    word: str
    why: str = ""
    trouble: bool = False
    """It failed, or is not as its spec says."""


def state_of(kind: str, document: Mapping[str, Any]) -> State:
    """`ready`, `suspended`, `finished`, ..., with the reason if it is not as its spec says."""
    if document["metadata"].get("deletionTimestamp"):
        return State("deleting")
    match kind:
        case "RayJob":
            return _job(document)
        case "RayCronJob" if invalid := _cron_violation(document):
            return State("invalid", one_line(invalid), trouble=True)
        case "RayCronJob" | "CronJob":
            return _cron_job(document)
        case "RayCluster" if (document.get("spec") or {}).get("suspend"):
            return _suspended_cluster(document)
        case "Pod":
            return _pod(document)
        case _:
            return _judged(kind, document)


def _judged(kind: str, document: Mapping[str, Any]) -> State:
    verdict = judge(kind, document)
    if verdict.ready:
        return State("ready", one_line(verdict.why))
    return State("failed" if verdict.failed else "not ready", one_line(verdict.why), trouble=True)


def _suspended_cluster(document: Mapping[str, Any]) -> State:
    verdict = judge("RayCluster", document)
    if not verdict.ready:
        return State("suspending", one_line(verdict.why))
    return State("suspended", one_line(_idle_suspension(document)))


def _idle_suspension(document: Mapping[str, Any]) -> str:
    """Since when nobody used a cluster that sleeps, and how to resume it; empty if somebody suspended it."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    found = (one for one in conditions if one.get("reason") == "IdleSuspended")
    return next((one.get("message") or "" for one in found), "")


def _job(document: Mapping[str, Any]) -> State:
    stage = (document.get("status") or {}).get("jobDeploymentStatus", "")
    word = JOB_STATES.get(stage, stage)
    verdict = judge("RayJob", document)
    why = "" if word in QUIET else one_line(verdict.why)
    return State(word, why, trouble=verdict.failed)


def _cron_job(document: Mapping[str, Any]) -> State:
    if (document.get("spec") or {}).get("suspend"):
        return State("suspended")
    status = document.get("status") or {}
    wrong = [one for one in status.get("conditions") or () if one.get("status") == "False"]
    if wrong:
        why = wrong[0].get("message") or wrong[0].get("reason", "")
        return State("not ready", one_line(why), trouble=True)
    last = status.get("lastScheduleTime")
    return State("scheduled", f"last run at {last}" if last else "")


def _cron_violation(document: Mapping[str, Any]) -> str:
    """Why the operator starts no job of a RayCronJob, whose status does not say it with KubeRay's CRD. Empty: it is
    suspended, or valid; what a feature gate may allow is valid."""
    from manta.api.ray.cronjob import RayCronJob
    from manta.rules.settings import FeatureGates, Settings
    from manta.rules.validation.cronjob import cronjob_violations

    spec = document.get("spec") or {}
    if spec.get("suspend") or "jobTemplate" not in spec:
        return ""
    gates = FeatureGates(**{one.name: True for one in fields(FeatureGates)})
    try:
        cron = msgspec.json.decode(msgspec.json.encode(document), type=RayCronJob)
    except msgspec.ValidationError as error:
        return str(error)
    found = cronjob_violations(cron, Settings(gates=gates, cert_manager=True))
    return str(found[0]) if found else ""


def _pod(document: Mapping[str, Any]) -> State:
    phase = (document.get("status") or {}).get("phase", "Pending")
    if phase == "Succeeded":
        return State("completed")
    verdict = judge("Pod", document)
    if verdict.ready:
        return State("ready", one_line(verdict.why))
    return State(
        "failed" if phase == "Failed" else "not ready", one_line(verdict.why), trouble=True
    )


def one_line(text: str, longest: int = MAX_LENGTH) -> str:
    """`text` in one line. If it is too long, its first and last lines: those matter in a traceback."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    whole = _sentences(lines)
    if len(whole) > longest and len(lines) > 1:
        first = _cut(lines[0], longest // 2).removesuffix(ELLIPSIS).rstrip()
        whole = f"{first} {ELLIPSIS} {lines[-1]}"
    return _cut(whole, longest)


def _sentences(lines: list[str]) -> str:
    """The lines, with a mark where the break was between two sentences."""
    marked = [
        f"{line};" if line[-1].isalnum() and after[0].isupper() else line
        for line, after in pairwise(lines)
    ]
    return " ".join([*marked, *lines[-1:]])


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + ELLIPSIS
