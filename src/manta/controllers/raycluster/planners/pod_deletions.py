"""Deletes the Pods that are not being deleted already."""

from __future__ import annotations

from collections.abc import Iterable

from manta.api.core import Pod
from manta.api.resources import PODS
from manta.controllers.raycluster.events import Cause
from manta.reconcile.actions import Delete
from manta.rules.pod_health import is_terminating


def deletions(pods: Iterable[Pod], cause: Cause, why: str) -> list[Delete]:
    """One Delete for each Pod that is not being deleted already (C04)."""
    return [
        Delete(PODS, pod.metadata.key, pod.metadata.uid, cause, why)
        for pod in pods
        if not is_terminating(pod)
    ]
