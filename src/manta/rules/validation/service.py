"""Validation of a RayService and its cluster: the rules of KubeRay (RS1 to RS15 in the tests)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from manta.api.durations import DurationError, parse_duration
from manta.api.numbers import parse_int32
from manta.api.ray import names
from manta.api.ray.naming import MAX_RAY_SERVICE_NAME
from manta.api.ray.service import (
    ClusterUpgradeOptions,
    RayService,
    RayServiceSpec,
    ServiceUpgradeType,
)
from manta.rules.serve_config import parse_serve_config
from manta.rules.settings import Settings
from manta.rules.traits import kubernetes_token_auth
from manta.rules.validation.canary import canary_violations
from manta.rules.validation.cluster import spec_violations
from manta.rules.validation.violation import Violation, name_violations

_CLUSTER = "spec.rayClusterConfig"
_STRATEGY = "spec.upgradeStrategy"
_OPTIONS = f"{_STRATEGY}.clusterUpgradeOptions"


def service_violations(service: RayService, settings: Settings) -> tuple[Violation, ...]:
    """All violations, metadata first."""
    spec = service.spec
    config = parse_serve_config(spec.serve_config_v2)
    return (
        *_metadata(service),
        *_cluster(spec),
        *spec_violations(
            spec.ray_cluster_config, service.metadata.annotations, settings, at=_CLUSTER
        ),
        *_strategy(spec, settings),
        *(canary_violations(service) if is_canary(spec) else ()),
        *((config,) if isinstance(config, Violation) else ()),
    )


def is_canary(spec: RayServiceSpec) -> bool:
    strategy = spec.upgrade_strategy
    return strategy is not None and strategy.type == ServiceUpgradeType.CANARY


def initializing_timeout(service: RayService) -> timedelta | Violation | None:
    """How long the service may take to become ready for the first time; None: for ever."""
    return _duration(service, names.ANNOTATION_INITIALIZING_TIMEOUT)


def unserving_limit(service: RayService) -> timedelta | Violation | None:
    """After how long without taking requests a worker is replaced; None: never (known bug C51)."""
    return _duration(service, names.ANNOTATION_REPLACE_UNSERVING_AFTER)


def _duration(service: RayService, annotation: str) -> timedelta | Violation | None:
    text = service.metadata.annotations.get(annotation, "")
    if not text:
        return None
    field = f"metadata.annotations[{annotation}]"
    cure = "must be a positive duration such as 30m, or a positive number of seconds"
    try:
        seconds = parse_int32(text)
        limit = parse_duration(text) if seconds is None else timedelta(seconds=seconds)
    except (DurationError, OverflowError):
        return Violation(field, text, cure)
    return limit if limit > timedelta(0) else Violation(field, text, cure)


def _metadata(service: RayService) -> Iterator[Violation]:
    yield from name_violations(service.metadata.name, MAX_RAY_SERVICE_NAME)
    for limit in (initializing_timeout(service), unserving_limit(service)):
        if isinstance(limit, Violation):
            yield limit


def _cluster(spec: RayServiceSpec) -> Iterator[Violation]:
    cluster = spec.ray_cluster_config
    if kubernetes_token_auth(cluster):
        field = f"{_CLUSTER}.authOptions.enableK8sTokenAuth"
        yield Violation(field, True, "not supported for RayService: use a token Secret instead")
    custom = (cluster.head_group_spec.head_service or {}).get("metadata") or {}
    if custom.get("name"):
        cure = "remove it: each cluster of an upgrade needs a head Service of its own"
        field = f"{_CLUSTER}.headGroupSpec.headService.metadata.name"
        yield Violation(field, custom["name"], cure)
    delay = spec.ray_cluster_deletion_delay_seconds
    if delay is not None and delay < 0:
        yield Violation("spec.rayClusterDeletionDelaySeconds", delay, "must not be negative")
    strategy = cluster.upgrade_strategy
    if strategy is not None and strategy.type is not None:
        cure = "remove it: a RayService upgrades its clusters by spec.upgradeStrategy"
        field = f"{_CLUSTER}.upgradeStrategy.type"
        yield Violation(field, strategy.type, cure)


def _strategy(spec: RayServiceSpec, settings: Settings) -> Iterator[Violation]:
    strategy = spec.upgrade_strategy
    if strategy is None or strategy.type is None:
        return
    if strategy.type not in list(ServiceUpgradeType):
        known = ", ".join(ServiceUpgradeType)
        yield Violation(f"{_STRATEGY}.type", strategy.type, f"must be one of {known}")
    if strategy.type != ServiceUpgradeType.INCREMENTAL:
        return
    if not settings.gates.ray_service_incremental_upgrade:
        cure = "needs the feature gate RayServiceIncrementalUpgrade"
        yield Violation(f"{_STRATEGY}.type", strategy.type, cure)
    if not spec.ray_cluster_config.enable_in_tree_autoscaling:
        cure = "must be true for an incremental upgrade: capacity moves by scaling"
        yield Violation(f"{_CLUSTER}.enableInTreeAutoscaling", False, cure)
    if strategy.cluster_upgrade_options is None:
        yield Violation(_OPTIONS, None, "must be set for an incremental upgrade")
        return
    yield from _options(strategy.cluster_upgrade_options)


def _options(options: ClusterUpgradeOptions) -> Iterator[Violation]:
    surge, step = options.max_surge_percent, options.step_size_percent
    if surge is not None and not 0 <= surge <= 100:
        yield Violation(f"{_OPTIONS}.maxSurgePercent", surge, "must be between 0 and 100")
    if step is None or not 0 <= step <= 100:
        yield Violation(f"{_OPTIONS}.stepSizePercent", step, "must be set, between 0 and 100")
    elif step > max_surge(options):
        cure = f"must not exceed maxSurgePercent ({max_surge(options)})"
        yield Violation(f"{_OPTIONS}.stepSizePercent", step, cure)
    if options.interval_seconds is None or options.interval_seconds <= 0:
        cure = "must be a positive number of seconds"
        yield Violation(f"{_OPTIONS}.intervalSeconds", options.interval_seconds, cure)
    if not options.gateway_class_name:
        cure = "must name the GatewayClass that carries the traffic"
        yield Violation(f"{_OPTIONS}.gatewayClassName", "", cure)


def max_surge(options: ClusterUpgradeOptions) -> int:
    return 100 if options.max_surge_percent is None else options.max_surge_percent
