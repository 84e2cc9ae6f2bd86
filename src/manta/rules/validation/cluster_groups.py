"""Rules of the head group and of the worker groups: RC3 to RC16, RC34, RC68, and our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from manta.api.names import (
    SUFFIX_LENGTH,
    dns1123_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from manta.api.ray.cluster import HeadGroupSpec, RayClusterSpec, WorkerGroupSpec
from manta.api.ray.naming import LABEL_LENGTH
from manta.rules.scaling import desired_pods, desired_replicas, desired_workers
from manta.rules.settings import Settings
from manta.rules.traits import (
    autoscaling,
    parse_ray_version,
    ray_version_at_least,
    runs_autoscaler_v2,
)
from manta.rules.validation.violation import Violation

_RESOURCE_PARAMS = ("num-cpus", "num-gpus", "memory", "resources")
MAX_WORKERS: Final = 150_000
"""Pods of one RayCluster: the most that Kubernetes supports in a cluster."""
MAX_HOSTS: Final = 10_000
"""Hosts of one replica, which are created together."""
PRIORITY_SINCE = (2, 56, 0)


def head_violations(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    where = f"{at}.headGroupSpec"
    yield from _containers(spec.head_group_spec.template, where)
    yield from _node_resources(spec.head_group_spec, where)


def group_violations(spec: RayClusterSpec, settings: Settings, at: str) -> Iterator[Violation]:
    yield from _size(spec, at)
    times = Counter(group.group_name for group in spec.worker_group_specs)
    for number, group in enumerate(spec.worker_group_specs):
        where = f"{at}.workerGroupSpecs[{number}]"
        if times[group.group_name] > 1:
            cure = "is the name of more than one worker group; give each group its own name"
            yield Violation(f"{where}.groupName", group.group_name, cure)
        yield from _group_name(group, where)
        yield from _containers(group.template, where)
        yield from _bounds(spec, group, where)
        yield from _node_resources(group, where)
        yield from _autoscaler_fields(spec, group, where)
        if group.suspend and not settings.gates.ray_job_deletion_policy:
            cure = "needs the feature gate RayJobDeletionPolicy; enable it or remove this field"
            yield Violation(f"{where}.suspend", group.suspend, cure)


def _size(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    """Numbers that no Kubernetes cluster supports are refused before any Pod is created."""
    for number, group in enumerate(spec.worker_group_specs):
        if group.num_of_hosts > MAX_HOSTS:
            field = f"{at}.workerGroupSpecs[{number}].numOfHosts"
            yield Violation(field, group.num_of_hosts, f"must be at most {MAX_HOSTS}")
    total = desired_workers(spec)
    if total > MAX_WORKERS:
        cure = (
            f"replicas, minReplicas and numOfHosts ask for {total} Pods; lower them to at most "
            f"{MAX_WORKERS}, the most that a Kubernetes cluster holds"
        )
        largest = max(spec.worker_group_specs, key=desired_pods)
        number = spec.worker_group_specs.index(largest)
        field = f"{at}.workerGroupSpecs[{number}].replicas"
        yield Violation(field, desired_replicas(largest), cure)


def _group_name(group: WorkerGroupSpec, where: str) -> Iterator[Violation]:
    """The name becomes a label value and, in lower case, a part of Pod names."""
    name, field = group.group_name, f"{where}.groupName"
    errors = label_value_errors(name) or dns1123_subdomain_errors(name.lower())
    for error in errors:
        yield Violation(field, name, error)
    longest = LABEL_LENGTH - SUFFIX_LENGTH - 1
    if group.num_of_hosts > 1 and len(name) > longest:
        cure = f"must have at most {longest} characters when numOfHosts is more than 1"
        yield Violation(field, name, cure)


def _containers(template: Mapping[str, Any], where: str) -> Iterator[Violation]:
    containers = (template.get("spec") or {}).get("containers")
    if not containers:
        cure = "must have at least one container: the first one runs Ray"
        yield Violation(f"{where}.template.spec.containers", containers or [], cure)
    for number, container in enumerate(containers or ()):
        place = f"{where}.template.spec.containers[{number}].resources"
        yield from _amounts(container.get("resources") or {}, place)


def _amounts(resources: Mapping[str, Any], where: str) -> Iterator[Violation]:
    """The API server refuses Pods with negative amounts, but the CRD's schema allows them."""
    for field in ("limits", "requests"):
        for name, text in (resources.get(field) or {}).items():
            if str(text).startswith("-"):
                yield Violation(f"{where}.{field}[{name}]", text, "must be zero or more")


def _bounds(spec: RayClusterSpec, group: WorkerGroupSpec, where: str) -> Iterator[Violation]:
    low, high = group.min_replicas, group.max_replicas
    if not autoscaling(spec) and (low is None or high is None):
        cure = "minReplicas and maxReplicas must be set when autoscaling is off"
        yield Violation(f"{where}.{'minReplicas' if low is None else 'maxReplicas'}", None, cure)
    if low is not None and low < 0:
        yield Violation(f"{where}.minReplicas", low, "must be zero or more")
    if high is not None and high < 0:
        yield Violation(f"{where}.maxReplicas", high, "must be zero or more")
    if low is not None and high is not None and low > high:
        cure = f"must not be more than maxReplicas ({high})"
        yield Violation(f"{where}.minReplicas", low, cure)


def _node_resources(group: HeadGroupSpec | WorkerGroupSpec, where: str) -> Iterator[Violation]:
    params = group.ray_start_params
    twice = [key for key in _RESOURCE_PARAMS if params.get(key)] if group.resources else []
    for key in twice:
        cure = f"remove it, or remove {where}.resources, which says the same"
        yield Violation(f"{where}.rayStartParams.{key}", params[key], cure)
    if "labels" in params:
        cure = f"is not supported here; use {where}.labels"
        yield Violation(f"{where}.rayStartParams.labels", params["labels"], cure)
    for key, value in group.labels.items():
        for error in qualified_name_errors(key):
            yield Violation(f"{where}.labels", key, error)
        for error in label_value_errors(value):
            yield Violation(f"{where}.labels[{key}]", value, error)


def _autoscaler_fields(
    spec: RayClusterSpec, group: WorkerGroupSpec, where: str
) -> Iterator[Violation]:
    v2 = "needs autoscaler v2: set spec.autoscalerOptions.version to v2"
    idle = group.idle_timeout_seconds
    if idle is not None:
        if idle < 0:
            yield Violation(f"{where}.idleTimeoutSeconds", idle, "must be zero or more")
        if not runs_autoscaler_v2(spec):
            yield Violation(f"{where}.idleTimeoutSeconds", idle, v2)
    if group.priority:
        field = f"{where}.priority"
        if parse_ray_version(spec.ray_version) is None:
            cure = f"needs spec.rayVersion to be set to a version ({spec.ray_version!r} is none)"
            yield Violation(field, group.priority, cure)
        elif not ray_version_at_least(spec.ray_version, PRIORITY_SINCE):
            cure = f"needs Ray 2.56.0 or later; spec.rayVersion is {spec.ray_version}"
            yield Violation(field, group.priority, cure)
        if not runs_autoscaler_v2(spec):
            yield Violation(field, group.priority, v2)
