"""Validation of a RayCluster beyond its schema.

The rules of KubeRay (RC1 to RC68 in the tests), and rules of our own: group names are unique (C13) and fit into Pod
names and labels (C78). All violations are returned at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from manta.api.conditions import is_true
from manta.api.names import dns1035_label_errors
from manta.api.ray import names
from manta.api.ray.cluster import (
    AutoscalerVersion,
    ClusterConditionType,
    ClusterUpgradeType,
    RayCluster,
    RayClusterSpec,
)
from manta.api.ray.naming import MAX_RAY_CLUSTER_NAME
from manta.rules.settings import Settings
from manta.rules.traits import (
    MAX_DRAIN_SECONDS,
    Creator,
    autoscaler_version,
    autoscaling,
    creator,
    env_of,
    group_templates,
    ray_container_of,
)
from manta.rules.validation.cluster_gcs import gcs_violations
from manta.rules.validation.cluster_groups import group_violations, head_violations
from manta.rules.validation.cluster_history import history_violations
from manta.rules.validation.cluster_rollout import rollout_violations
from manta.rules.validation.cluster_security import security_violations
from manta.rules.validation.gang import gang_label_violations
from manta.rules.validation.violation import Violation, length_violations


def cluster_violations(cluster: RayCluster, settings: Settings) -> tuple[Violation, ...]:
    """All violations: metadata first, then spec, then status."""
    return (
        *_metadata(cluster),
        *gang_label_violations(cluster.metadata.labels, settings),
        *spec_violations(cluster.spec, cluster.metadata.annotations, settings),
        *_upgrade(cluster),
        *rollout_violations(cluster),
        *_status(cluster),
    )


def spec_violations(
    spec: RayClusterSpec, annotations: Mapping[str, str], settings: Settings, at: str = "spec"
) -> list[Violation]:
    """Violations of the spec alone; `at` is its path in a RayJob or RayService."""
    return [
        *head_violations(spec, at),
        *group_violations(spec, settings, at),
        *gcs_violations(spec, annotations, settings, at),
        *autoscaling_violations(spec, at),
        *history_violations(spec, settings, at),
        *security_violations(spec, settings, at),
    ]


def _metadata(cluster: RayCluster) -> Iterator[Violation]:
    name = cluster.metadata.name
    yield from length_violations(name, MAX_RAY_CLUSTER_NAME)
    for error in dns1035_label_errors(name):
        yield Violation("metadata.name", name, error)
    text = cluster.metadata.annotations.get(names.ANNOTATION_DRAIN_SECONDS, "0")
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) > MAX_DRAIN_SECONDS:
        field = f"metadata.annotations[{names.ANNOTATION_DRAIN_SECONDS}]"
        cure = f"must be a number of seconds between 0 and {MAX_DRAIN_SECONDS}"
        yield Violation(field, text, cure)


def _upgrade(cluster: RayCluster) -> Iterator[Violation]:
    strategy, field = cluster.spec.upgrade_strategy, "spec.upgradeStrategy.type"
    if strategy is None or strategy.type is None:
        return
    if strategy.type not in list(ClusterUpgradeType):
        yield Violation(field, strategy.type, "must be Recreate, RollingUpdate or None")
    parent = creator(cluster.metadata)
    if parent is not Creator.CLUSTER:
        cure = f"remove it: this cluster belongs to a {parent}, which upgrades it in its own way"
        yield Violation(field, strategy.type, cure)


def _status(cluster: RayCluster) -> Iterator[Violation]:
    both = (ClusterConditionType.SUSPENDING, ClusterConditionType.SUSPENDED)
    if all(is_true(cluster.status.conditions, type_) for type_ in both):
        cure = "RayClusterSuspending and RayClusterSuspended cannot both be True"
        yield Violation("status.conditions", "True", cure)


def autoscaling_violations(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    env = env_of(ray_container_of(spec.head_group_spec.template))
    chosen = env.get(names.ENV_ENABLE_AUTOSCALER_V2)
    field = f"{at}.headGroupSpec.template.spec.containers[0].env"
    if not autoscaling(spec):
        if chosen in ("1", "true"):
            cure = "has no effect while enableInTreeAutoscaling is off; set that, or remove this"
            yield Violation(field, names.ENV_ENABLE_AUTOSCALER_V2, cure)
    else:
        if chosen is not None and autoscaler_version(spec):
            cure = "remove it: spec.autoscalerOptions.version says which autoscaler runs"
            yield Violation(field, names.ENV_ENABLE_AUTOSCALER_V2, cure)
        yield from _suspended_groups(spec, at)
        if autoscaler_version(spec) == AutoscalerVersion.V2:
            yield from _restart_policies(spec, at)
    yield from _options(spec, at)


def _suspended_groups(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    for number, group in enumerate(spec.worker_group_specs):
        if group.suspend:
            cure = "a group cannot be suspended while the autoscaler resizes it"
            yield Violation(f"{at}.workerGroupSpecs[{number}].suspend", group.suspend, cure)


def _restart_policies(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    for where, template in group_templates(spec, at).items():
        policy = (template.get("spec") or {}).get("restartPolicy") or ""
        if policy not in ("", "Never"):
            cure = "must be Never, or left out, with autoscaler v2"
            yield Violation(f"{where}.template.spec.restartPolicy", policy, cure)


def _options(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    options = spec.autoscaler_options
    if options is None:
        return
    idle = options.idle_timeout_seconds
    if idle is not None and idle < 0:
        field = f"{at}.autoscalerOptions.idleTimeoutSeconds"
        yield Violation(field, idle, "must be zero or more")
    if any(one.get("name") == names.ENV_AUTOSCALER_START_COMMAND for one in options.env):
        cure = "is set by the operator; to change the command use autoscalerOptions.command"
        yield Violation(f"{at}.autoscalerOptions.env", names.ENV_AUTOSCALER_START_COMMAND, cure)
