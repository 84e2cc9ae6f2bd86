"""Rules of a rolling update: its options, in the spec or in the annotation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from manta.api.ray import names
from manta.api.ray.cluster import (
    ClusterUpgradeType,
    GroupRollingUpdate,
    OnRolloutFailure,
    RayCluster,
    RollingUpdateOptions,
)
from manta.api.usage import did_you_mean
from manta.rules.rolling_update import Amount, is_zero, parse_annotation, percent
from manta.rules.traits import MAX_DRAIN_SECONDS, Creator, creator
from manta.rules.validation.violation import Violation

_ANNOTATION = f"metadata.annotations[{names.ANNOTATION_ROLLING_UPDATE}]"
_SPEC = "spec.upgradeStrategy.rollingUpdate"
MAX_SECONDS = 30 * 86400
MAX_ANNOTATION_CHARACTERS = 16 * 1024


def rollout_violations(cluster: RayCluster) -> Iterator[Violation]:
    yield from _annotation(cluster)
    strategy = cluster.spec.upgrade_strategy
    if strategy is None or strategy.rolling_update is None:
        return
    if strategy.type != ClusterUpgradeType.ROLLING_UPDATE:
        cure = "set it to RollingUpdate, or remove rollingUpdate"
        yield Violation("spec.upgradeStrategy.type", strategy.type, cure)
    yield from _options(cluster, strategy.rolling_update, _SPEC)


def _annotation(cluster: RayCluster) -> Iterator[Violation]:
    consent = cluster.metadata.annotations.get(names.ANNOTATION_ROLLING_UPDATE_HEAD, "")
    if consent not in ("", names.ROLLING_UPDATE_HEAD_ALLOWED):
        field = f"metadata.annotations[{names.ANNOTATION_ROLLING_UPDATE_HEAD}]"
        yield Violation(field, consent, "must be allow, or absent")
    text = cluster.metadata.annotations.get(names.ANNOTATION_ROLLING_UPDATE, "").strip()
    if text.lower() in ("", "false"):
        return
    strategy, parent = cluster.spec.upgrade_strategy, creator(cluster.metadata)
    if parent is not Creator.CLUSTER:
        cure = f"remove it: this cluster belongs to a {parent}, which upgrades it in its own way"
        yield Violation(_ANNOTATION, text, cure)
    if strategy is not None and strategy.type not in (None, ClusterUpgradeType.ROLLING_UPDATE):
        cure = f"remove it, or spec.upgradeStrategy.type: {strategy.type}"
        yield Violation(_ANNOTATION, text, cure)
    yield from _parsed(cluster, text)


def _parsed(cluster: RayCluster, text: str) -> Iterator[Violation]:
    example = '{"maxSurge": 1, "maxUnavailable": 0}'
    if len(text) > MAX_ANNOTATION_CHARACTERS:
        yield Violation(
            _ANNOTATION, text, f"must have at most {MAX_ANNOTATION_CHARACTERS} characters"
        )
        return
    try:
        options = parse_annotation(text)
    except ValueError as error:
        yield Violation(_ANNOTATION, text, f"must be true, or JSON such as {example}: {error}")
        return
    for path, name, known in _unknown(text):
        cure = f"is no option of a rolling update{did_you_mean(name, known)}"
        yield Violation(f"{_ANNOTATION}{path}.{name}", "set", cure)
    yield from _options(cluster, options, _ANNOTATION)


def _unknown(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Misspelt options of the annotation. No schema checks them as the CRD checks the spec."""
    given = {} if text.lower() == "true" else json.loads(text)
    levels: list[tuple[str, Any, type[Any]]] = [("", given, RollingUpdateOptions)]
    levels += [
        (f".groups[{at}]", one, GroupRollingUpdate)
        for at, one in enumerate(given.get("groups") or ())
    ]
    for path, one, struct in levels:
        known = [field.encode_name for field in msgspec.structs.fields(struct)]
        yield from ((path, name, known) for name in one if name not in known)


def _options(cluster: RayCluster, options: RollingUpdateOptions, at: str) -> Iterator[Violation]:
    yield from _amounts(options.max_surge, options.max_unavailable, at)
    yield from _seconds(options, at)
    if options.on_failure not in (None, *OnRolloutFailure):
        yield Violation(f"{at}.onFailure", options.on_failure, "must be stop or rollback")
    groups = [group.group_name for group in cluster.spec.worker_group_specs]
    found: set[str] = set()
    for number, one in enumerate(options.groups):
        where = f"{at}.groups[{number}]"
        if one.group_name not in groups:
            cure = f"names no worker group{did_you_mean(one.group_name, groups)}"
            yield Violation(f"{where}.groupName", one.group_name, cure)
        if one.group_name in found:
            yield Violation(f"{where}.groupName", one.group_name, "is there twice; remove one")
        found.add(one.group_name)
        yield from _amounts(one.max_surge, one.max_unavailable, where)


def _amounts(surge: Amount | None, unavailable: Amount | None, at: str) -> Iterator[Violation]:
    yield from _amount(surge, f"{at}.maxSurge", most=None)
    yield from _amount(unavailable, f"{at}.maxUnavailable", most=100)
    given = surge is not None and unavailable is not None
    if given and is_zero(surge or 0) and is_zero(unavailable or 0):
        cure = "may not be 0 when maxSurge is 0 too: no Pod could be replaced"
        yield Violation(f"{at}.maxUnavailable", unavailable, cure)


def _amount(value: Any, field: str, most: int | None) -> Iterator[Violation]:
    if value is None:
        return
    if isinstance(value, int):
        if not 0 <= value < 2**31:
            yield Violation(field, value, "must be a number of replicas, 0 or more, or percent")
        return
    share = percent(value)
    if share is None or (most is not None and share > most):
        limit = f" of at most {most}%" if most else ""
        yield Violation(
            field, value, f'must be a number of replicas, or percent{limit} such as "25%"'
        )


def _seconds(options: RollingUpdateOptions, at: str) -> Iterator[Violation]:
    ready, deadline = options.min_ready_seconds, options.progress_deadline_seconds
    for name, value, least, most in (
        ("minReadySeconds", ready, 0, MAX_SECONDS),
        ("progressDeadlineSeconds", deadline, 1, MAX_SECONDS),
        ("drainSeconds", options.drain_seconds, 0, MAX_DRAIN_SECONDS),
    ):
        if value is not None and not least <= value <= most:
            cure = f"must be a number of seconds between {least} and {most}"
            yield Violation(f"{at}.{name}", value, cure)
    if ready is not None and deadline is not None and deadline <= ready:
        cure = f"must be more than minReadySeconds ({ready}): no Pod could count in time"
        yield Violation(f"{at}.progressDeadlineSeconds", deadline, cure)
