"""The rules that a RayCluster must keep, beyond what its schema says.

RC1 to RC68 of the compatibility contract, each with a cure, and three of our own: group names
are unique (C13), and fit into the names and labels of their Pods (C78). All violations are found
at once, so that a user mends a spec in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from manta.api.conditions import is_true
from manta.api.names import dns1035_label_errors
from manta.api.ray import names
from manta.api.ray.cluster import (
    ClusterConditionType,
    ClusterUpgradeType,
    RayCluster,
    RayClusterSpec,
)
from manta.api.ray.naming import MAX_RAY_CLUSTER_NAME
from manta.rules.settings import Settings
from manta.rules.traits import MOST_DRAIN_SECONDS, Creator, creator
from manta.rules.validation.cluster_autoscaling import autoscaling_violations
from manta.rules.validation.cluster_gcs import gcs_violations
from manta.rules.validation.cluster_groups import group_violations, head_violations
from manta.rules.validation.cluster_history import history_violations
from manta.rules.validation.cluster_security import security_violations
from manta.rules.validation.gang import gang_label_violations
from manta.rules.validation.violation import Violation


def cluster_violations(cluster: RayCluster, settings: Settings) -> tuple[Violation, ...]:
    """Everything that is wrong with this object; metadata first, then spec, then status."""
    return (
        *_metadata(cluster),
        *gang_label_violations(cluster.metadata.labels, settings),
        *spec_violations(cluster.spec, cluster.metadata.annotations, settings),
        *_upgrade(cluster),
        *_status(cluster),
    )


def spec_violations(
    spec: RayClusterSpec, annotations: Mapping[str, str], settings: Settings, at: str = "spec"
) -> list[Violation]:
    """The rules of the spec alone: also for a RayJob's or a RayService's cluster, at its path."""
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
    if len(name) > MAX_RAY_CLUSTER_NAME:
        cure = f"has {len(name)} characters; shorten it to at most {MAX_RAY_CLUSTER_NAME}"
        yield Violation("metadata.name", name, cure)
    for error in dns1035_label_errors(name):
        yield Violation("metadata.name", name, error)
    text = cluster.metadata.annotations.get(names.ANNOTATION_DRAIN_SECONDS, "0")
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) > MOST_DRAIN_SECONDS:
        field = f"metadata.annotations[{names.ANNOTATION_DRAIN_SECONDS}]"
        cure = f"must be a number of seconds between 0 and {MOST_DRAIN_SECONDS}"
        yield Violation(field, text, cure)


def _upgrade(cluster: RayCluster) -> Iterator[Violation]:
    strategy, field = cluster.spec.upgrade_strategy, "spec.upgradeStrategy.type"
    if strategy is None or strategy.type is None:
        return
    if strategy.type not in list(ClusterUpgradeType):
        yield Violation(field, strategy.type, "must be Recreate or None")
    parent = creator(cluster.metadata)
    if parent is not Creator.CLUSTER:
        cure = f"remove it: this cluster belongs to a {parent}, which upgrades it in its own way"
        yield Violation(field, strategy.type, cure)


def _status(cluster: RayCluster) -> Iterator[Violation]:
    both = (ClusterConditionType.SUSPENDING, ClusterConditionType.SUSPENDED)
    if all(is_true(cluster.status.conditions, type_) for type_ in both):
        cure = "RayClusterSuspending and RayClusterSuspended cannot both be True"
        yield Violation("status.conditions", "True", cure)
