"""Steers a canary by hand: annotations that the operator reads. Each names the cluster that it is meant for, so
that a late one never touches the next upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from manta.api.conditions import is_true
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayService, ServiceConditionType, ServiceUpgradeType
from manta.api.usage import UsageError
from manta.kube.client import Client
from manta.rules.canary import step_at, weights
from manta.rules.validation.canary import canary_options
from manta.rules.validation.violation import Violation

VERBS: Final = ("promote", "pause", "resume", "abort")


async def steer(client: Client, key: Key, verb: str, *, every_step: bool = False) -> str:
    """Execute one of VERBS, and say what follows. Raises UsageError if there is nothing to steer."""
    service = await client.get(RAY_SERVICES, key, into=RayService)
    strategy = service.spec.upgrade_strategy
    if strategy is None or strategy.type != ServiceUpgradeType.CANARY:
        kind = (strategy.type if strategy else None) or ServiceUpgradeType.NEW_CLUSTER
        raise UsageError(
            f"rayservice/{key.name}: its upgrade strategy is {kind}; `{verb}` needs Canary"
        )
    new, old = (
        service.status.pending_service_status.ray_cluster_name,
        service.status.active_service_status.ray_cluster_name,
    )
    is_going_back = is_true(service.status.conditions, ServiceConditionType.ROLLBACK_IN_PROGRESS)
    if new and old and is_going_back:
        again = "; when it is gone, `resume` tries the spec again" if verb == "resume" else ""
        raise UsageError(
            f"rayservice/{key.name}: its canary is being rolled back; all requests go to RayCluster {old}{again}"
        )
    if verb == "resume":
        return await _resume(client, service)
    if not new or not old:
        raise UsageError(f"rayservice/{key.name}: no canary is in progress")
    annotations, text = _annotations(service, verb, new, old, every_step=every_step)
    await _annotate(client, key, annotations)
    return f"rayservice/{key.name}: {text}"


def _annotations(
    service: RayService, verb: str, new: str, old: str, *, every_step: bool
) -> tuple[dict[str, str | None], str]:
    """The later one of a promotion and a pause counts: it removes the other."""
    pause, promote = names.ANNOTATION_CANARY_PAUSE, names.ANNOTATION_CANARY_PROMOTE
    if verb == "pause":
        return {pause: new, promote: None}, "paused; no further step begins"
    if verb == "abort":
        return {names.ANNOTATION_CANARY_ABORT: new}, f"all requests go back to RayCluster {old}"
    steps, text = ("all", "no further step waits") if every_step else _next_step(service, new)
    ends = "; it is no longer paused" if pause in service.metadata.annotations else ""
    return {promote: f"{new}/{steps}", pause: None}, f"{text}{ends}"


def _next_step(service: RayService, new: str) -> tuple[str, str]:
    options = canary_options(service)
    if options is None or isinstance(options, Violation):
        raise UsageError(f"rayservice/{service.metadata.name}: {options or 'it has no steps'}")
    number = step_at(options, service.status.pending_service_status.traffic_routed_percent)
    after = weights(options)[min(number, len(options.steps))]
    return str(number), f"RayCluster {new} gets {after} % of the traffic next"


async def _resume(client: Client, service: RayService) -> str:
    """End a pause; or try a spec again whose canary was rolled back."""
    key, has = service.metadata.key, service.metadata.annotations
    gone = (names.ANNOTATION_CANARY_PAUSE, names.ANNOTATION_CANARY_ABORT)
    is_held = any(name in has for name in gone)
    if is_held:
        await _annotate(client, key, dict.fromkeys(gone))
    old = service.status.active_service_status.ray_cluster_name
    if not service.status.pending_service_status.ray_cluster_name and old:
        cluster = await client.get(RAY_CLUSTERS, Key(key.namespace, old), into=RayCluster)
        if names.ANNOTATION_REJECTED_SPEC in cluster.metadata.annotations:
            body = {"metadata": {"annotations": {names.ANNOTATION_REJECTED_SPEC: None}}}
            await client.patch(RAY_CLUSTERS, cluster.metadata.key, body)
            return f"rayservice/{key.name}: the spec that was rolled back is tried again"
    return f"rayservice/{key.name}: {'resumed' if is_held else 'nothing is paused or rolled back'}"


async def _annotate(client: Client, key: Key, annotations: Mapping[str, str | None]) -> None:
    await client.patch(RAY_SERVICES, key, {"metadata": {"annotations": annotations}})
