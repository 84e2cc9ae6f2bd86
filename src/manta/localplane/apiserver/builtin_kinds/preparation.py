"""What the server itself adds to new and to changed objects of some kinds.

Each function changes the object that it is given.
"""

from __future__ import annotations

from typing import Any

from manta.api.well_known import FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION
from manta.localplane.apiserver.builtin_kinds.context import Context
from manta.localplane.apiserver.builtin_kinds.defaults import services, workloads
from manta.localplane.apiserver.builtin_kinds.defaults.pods import quality_of_service
from manta.localplane.apiserver.builtin_kinds.pod_admission import (
    add_default_tolerations,
    admit_pod,
)

Json = dict[str, Any]


def prepare_new_pod(pod: Json, context: Context) -> None:
    admit_pod(pod, context)
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [gated]


def prepare_new_namespace(namespace: Json, _: Context) -> None:
    spec = namespace.setdefault("spec", {})
    spec["finalizers"] = list(dict.fromkeys([*(spec.get("finalizers") or []), "kubernetes"]))
    namespace["status"] = {"phase": "Active"}


def prepare_new_claim(claim: Json, _: Context) -> None:
    _protect(claim, FINALIZER_CLAIM_PROTECTION)
    claim["status"] = {"phase": "Pending"}


def prepare_new_volume(volume: Json, _: Context) -> None:
    _protect(volume, FINALIZER_VOLUME_PROTECTION)
    made = volume["metadata"].get("creationTimestamp")
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": made}


def _protect(obj: Json, finalizer: str) -> None:
    """The storage protection controllers remove the finalizer once the storage is not in use."""
    names = obj["metadata"].get("finalizers") or []
    if finalizer not in names:
        obj["metadata"]["finalizers"] = [*names, finalizer]


def prepare_new_job(job: Json, _: Context) -> None:
    workloads.generate_selector(job)
    workloads.default_job(job)


def prepare_changed_service(old: Json, service: Json, context: Context, _: str) -> None:
    services.keep_allocated(old, service)
    services.drop_unused(old, service)
    services.allocate(service, context, old)


def prepare_changed_pod(_: Json, pod: Json, __: Context, subresource: str) -> None:
    if not subresource:
        add_default_tolerations(pod)


def prepare_changed_daemon_set(old: Json, daemon_set: Json, _: Context, subresource: str) -> None:
    if not subresource:
        workloads.count_template(old, daemon_set)
