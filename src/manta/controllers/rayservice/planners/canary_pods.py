"""The serving label of Pods, by which the serve Service selects Pods of both clusters during a canary."""

from __future__ import annotations

from collections.abc import Iterable

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.resources import PODS
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.canary import has_serving_label
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.reconcile.actions import Patch
from manta.reconcile.plan import Plan, do


def plan_serving_labels(
    snapshot: ServiceSnapshot, wanted: Iterable[Pod], unwanted: Iterable[Pod]
) -> Plan:
    """Label these Pods, then remove the label of the others: meanwhile more Pods serve, never fewer."""
    name = snapshot.service.metadata.name
    added = [_patch(one, name) for one in wanted if not has_serving_label(snapshot, one)]
    removed = [_patch(one, None) for one in unwanted if has_serving_label(snapshot, one)]
    return do(*added, independent=True).then(do(*removed, independent=True))


def _patch(pod: Pod, value: str | None) -> Patch:
    body = {"metadata": {"labels": {names.LABEL_SERVING: value}}}
    why = "it takes requests" if value else "it takes no more requests"
    return Patch(PODS, pod.metadata.key, body, Cause.SERVING_LABEL, why, uid=pod.metadata.uid)
