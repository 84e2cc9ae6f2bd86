"""The options of a canary: from the spec, or from the annotation where a CRD drops the field; and their rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec

from manta.api.ray.names import ANNOTATION_CANARY
from manta.api.ray.service import (
    CanaryAnalysis,
    CanaryStep,
    CanaryUpgradeOptions,
    PrometheusQuery,
    RayService,
)
from manta.api.ray.unknown_fields import unknown_fields
from manta.api.usage import did_you_mean
from manta.rules.text_cache import TextParser, read_field
from manta.rules.validation.violation import Violation

FIELD: Final = "spec.upgradeStrategy.canaryUpgradeOptions"
MAX_STEPS: Final = 20
MAX_SECONDS: Final = 30 * 86400
MAX_INTERVAL: Final = 15
"""Seconds. Ray publishes its metrics every 10 s: so a broken limit is seen within 30 s."""
MAX_WINDOW_SECONDS: Final = 600
MAX_QUERY_CHARACTERS: Final = 4096
_ANNOTATION: Final = f"metadata.annotations[{ANNOTATION_CANARY}]"


def canary_options(service: RayService) -> CanaryUpgradeOptions | Violation | None:
    """The options of the spec, or else of the annotation; None if there are none."""
    strategy = service.spec.upgrade_strategy
    if strategy is not None and strategy.canary_upgrade_options is not None:
        return strategy.canary_upgrade_options
    text = service.metadata.annotations.get(ANNOTATION_CANARY, "")
    return _annotated(text) if text else None


def _parse(text: str) -> CanaryUpgradeOptions | Violation:
    """The options in an annotation, or what is wrong with it. Parsed once per text."""
    value = read_field(_ANNOTATION, text)
    if isinstance(value, Violation):
        return value
    try:
        options = msgspec.convert(value, CanaryUpgradeOptions)
    except msgspec.ValidationError as error:
        return Violation(_ANNOTATION, text, f"is not what {FIELD} would be: {error}")
    for path, given, known in unknown_fields(value, CanaryUpgradeOptions):
        # No schema checks an annotation: a step with `pause: 600` would not pause at all.
        cure = f"is no option of a canary{did_you_mean(path.rpartition('.')[2], known)}"
        return Violation(f"{_ANNOTATION}.{path}", given, cure)
    return options


_annotated: Final[TextParser[CanaryUpgradeOptions | Violation]] = TextParser(_parse)


def canary_violations(service: RayService) -> Iterator[Violation]:
    options = canary_options(service)
    if options is None:
        cure = f"must be set for a canary, with at least one step; or as annotation {ANNOTATION_CANARY}"
        yield Violation(FIELD, None, cure)
    elif isinstance(options, Violation):
        yield options
    else:
        yield from _steps(options.steps)
        yield from _surge(options.max_surge)
        deadline = options.progress_deadline_seconds
        if deadline is not None and not 1 <= deadline <= MAX_SECONDS:
            cure = f"must be between 1 and {MAX_SECONDS} seconds"
            yield Violation(f"{FIELD}.progressDeadlineSeconds", deadline, cure)
        if options.analysis is not None:
            yield from _analysis(options.analysis)


def _steps(steps: tuple[CanaryStep, ...]) -> Iterator[Violation]:
    field = f"{FIELD}.steps"
    if not 1 <= len(steps) <= MAX_STEPS:
        yield Violation(field, len(steps), f"must have between 1 and {MAX_STEPS} steps")
        return
    for at, step in enumerate(steps):
        if not 1 <= step.weight <= 99:
            cure = "must be between 1 and 99 percent; 100 follows the last step by itself"
            yield Violation(f"{field}[{at}].weight", step.weight, cure)
        if not 0 <= step.pause_seconds <= MAX_SECONDS:
            cure = f"must be between 0 and {MAX_SECONDS} seconds"
            yield Violation(f"{field}[{at}].pauseSeconds", step.pause_seconds, cure)
    for at, (before, after) in enumerate(pairwise(steps), 1):
        if after.weight <= before.weight:
            cure = f"must be more than the weight of the step before ({before.weight})"
            yield Violation(f"{field}[{at}].weight", after.weight, cure)


def _surge(value: int | str | None) -> Iterator[Violation]:
    text = str(1 if value is None else value)
    number = text.removesuffix("%")
    if not number.isdecimal() or not 1 <= int(number) <= 10_000:
        cure = "must be a number of workers such as 1, or a percentage such as 25%; at least 1, because"
        cure += " the first worker of the new cluster needs a place beside the old ones"
        yield Violation(f"{FIELD}.maxSurge", value, cure)


def _analysis(analysis: CanaryAnalysis) -> Iterator[Violation]:
    field, interval, window = (
        f"{FIELD}.analysis",
        analysis.interval_seconds,
        analysis.window_seconds,
    )
    if not 1 <= interval <= MAX_INTERVAL:
        cure = f"must be between 1 and {MAX_INTERVAL} seconds, to roll back in time"
        yield Violation(f"{field}.intervalSeconds", interval, cure)
    if not 10 <= window <= MAX_WINDOW_SECONDS:
        cure = f"must be between 10 and {MAX_WINDOW_SECONDS} seconds"
        yield Violation(f"{field}.windowSeconds", window, cure)
    if analysis.min_requests < 1:
        yield Violation(f"{field}.minRequests", analysis.min_requests, "must be at least 1")
    errors, p95 = analysis.max_error_percent, analysis.max_p95_milliseconds
    if errors is not None and not 0 <= errors <= 100:
        yield Violation(f"{field}.maxErrorPercent", errors, "must be between 0 and 100")
    if p95 is not None and p95 < 1:
        yield Violation(f"{field}.maxP95Milliseconds", p95, "must be at least 1")
    if analysis.prometheus is not None:
        yield from _prometheus(analysis.prometheus, f"{field}.prometheus")
    elif errors is None and p95 is None:
        cure = "must set a limit: maxErrorPercent, maxP95Milliseconds or prometheus"
        yield Violation(field, {}, cure)


def _prometheus(query: PrometheusQuery, field: str) -> Iterator[Violation]:
    if not 1 <= len(query.query) <= MAX_QUERY_CHARACTERS:
        cure = f"must be a PromQL query of at most {MAX_QUERY_CHARACTERS} characters"
        yield Violation(f"{field}.query", query.query[:80], cure)
