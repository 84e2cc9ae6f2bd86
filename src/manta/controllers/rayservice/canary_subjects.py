"""The Pods whose metrics are read during a canary: some of those that take requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from manta.api.core import Pod
from manta.api.ray import names
from manta.controllers.rayservice.facts.canary import has_serving_label
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot

MAX_PODS: Final = 8
"""Number of Pods of each cluster whose metrics are read: shares and percentiles need a sample, not all."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One Pod whose metrics are read."""

    namespace: str
    name: str
    uid: str
    ip: str
    port: int


def subjects(snapshot: ServiceSnapshot, view: ClusterView) -> tuple[Subject, ...]:
    pods = sorted(view.serving_pods, key=lambda pod: pod.metadata.name)
    chosen = [pod for pod in pods if has_serving_label(snapshot, pod)]
    return tuple(_subject(pod) for pod in chosen[:MAX_PODS])


def _subject(pod: Pod) -> Subject:
    ports = (port for container in pod.spec.containers for port in container.ports)
    declared = (one.container_port for one in ports if one.name == names.PORT_NAME_METRICS)
    meta, port = pod.metadata, next(declared, names.PORT_METRICS)
    return Subject(meta.namespace, meta.name, meta.uid, pod.status.pod_ip, port)
