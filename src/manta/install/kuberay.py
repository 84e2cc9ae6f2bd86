"""Find KubeRay operators in a cluster: Manta must not manage the same namespaces as they do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from manta.api.ray.names import LEADER_LEASE_NAME, OPERATOR_NAME
from manta.api.resources import DEPLOYMENTS, LEASES
from manta.api.times import parse_time
from manta.api.well_known import LABEL_APP_COMPONENT, LABEL_APP_NAME
from manta.kube.client import Client
from manta.runtime.lease import Timing

Json = Mapping[str, Any]
_BY_CLIENT_GO = re.compile(r"_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""The end of the holder identity that client-go writes. Ours has none."""


@dataclass(frozen=True, slots=True)
class KubeRayOperator:
    """A running KubeRay operator."""

    what: str
    namespaces: tuple[str, ...]
    """The namespaces that it watches; empty: all."""
    fix: str

    def overlaps(self, namespaces: Sequence[str]) -> bool:
        if not self.namespaces or not namespaces:
            return True
        return not set(self.namespaces).isdisjoint(namespaces)


async def find_kuberay(client: Client, now: datetime) -> list[KubeRayOperator]:
    deployments = (await client.list(DEPLOYMENTS)).items
    leases = (await client.list(LEASES, fields=f"metadata.name={LEADER_LEASE_NAME}")).items
    found = [one for one in map(of_deployment, deployments) if one]
    if not found:  # an operator outside of the cluster, or without a Deployment
        found = [one for one in (of_lease(lease, now) for lease in leases) if one]
    return found


def of_deployment(deployment: Json) -> KubeRayOperator | None:
    """The KubeRay operator of this Deployment; None if it has none, or is scaled to zero."""
    meta, spec = deployment["metadata"], deployment["spec"]
    containers = spec["template"]["spec"]["containers"]
    if not any(is_kuberay(deployment, one) for one in containers):
        return None
    running = (deployment.get("status") or {}).get("replicas", 0)
    if spec.get("replicas", 1) == 0 and not running:
        return None
    where = f"{meta['namespace']}/{meta['name']}"
    fix = f"kubectl -n {meta['namespace']} scale deployment {meta['name']} --replicas=0"
    return KubeRayOperator(f"Deployment {where}", _watched(containers), fix)


def is_kuberay(deployment: Json, container: Json) -> bool:
    """Whether this container is a KubeRay operator, by the labels of its charts or by its image."""
    if [*(container.get("command") or ()), ""][0] == "manta":
        return False  # our own Deployment carries KubeRay's labels
    labels = deployment["metadata"].get("labels") or {}
    names = (labels.get(LABEL_APP_NAME), labels.get(LABEL_APP_COMPONENT))
    return OPERATOR_NAME in names or "kuberay/operator" in container.get("image", "")


def _watched(containers: Iterable[Json]) -> tuple[str, ...]:
    for container in containers:
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        for index, word in enumerate(words):
            flag, _, value = word.lstrip("-").partition("=")
            if flag == "watch-namespace":
                text = value or (words[index + 1] if index + 1 < len(words) else "")
                return tuple(one for one in text.split(",") if one)
    return ()


def of_lease(lease: Json, now: datetime) -> KubeRayOperator | None:
    """The KubeRay operator that holds and renews this Lease; None if there is none."""
    spec, meta = lease.get("spec") or {}, lease["metadata"]
    holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime")
    if not (holder.startswith(OPERATOR_NAME) or _BY_CLIENT_GO.search(holder)) or not renewed:
        return None
    if (
        parse_time(renewed)
        + timedelta(seconds=spec.get("leaseDurationSeconds") or Timing().duration)
        < now
    ):
        return None
    what = f"{holder}, which holds Lease {meta['namespace']}/{meta['name']}"
    return KubeRayOperator(what, (), f"stop {holder}")


def refusal(operators: Sequence[KubeRayOperator], namespaces: Sequence[str]) -> str:
    where = ", ".join(namespaces) or "all namespaces"
    lines = [
        f"Refused: a KubeRay operator runs. Manta must not manage the same namespaces ({where})."
    ]
    for one in operators:
        watches = ", ".join(one.namespaces) or "all namespaces"
        lines += [f"  {one.what}, for {watches}", f"    stop it first: {one.fix}"]
    return "\n".join(lines)
