"""The limit of idleness of a cluster: its annotations, and the default of the operator."""

from __future__ import annotations

from datetime import timedelta

import pytest

from manta.api.meta import ObjectMeta
from manta.rules.idle import LONGEST, SHORTEST, IdleLimit, checked_idle_defaults, idle_limit
from manta.rules.validation.violation import Violation

AFTER = "manta.ray.io/idle-suspend-after"
WARNING = "manta.ray.io/idle-suspend-warning"


def limit(defaults: str = "", **fields: object) -> IdleLimit | Violation | None:
    meta = {"name": "demo", "namespace": "dev", "annotations": {}, "labels": {}} | fields
    return idle_limit(ObjectMeta(**meta), defaults)  # type: ignore[arg-type]


def test_without_an_annotation_and_a_default_there_is_no_limit() -> None:
    assert limit() is None


def test_the_warning_comes_ten_minutes_before_or_at_once_for_a_shorter_limit() -> None:
    assert limit(annotations={AFTER: "30m"}) == IdleLimit(
        timedelta(minutes=30), timedelta(minutes=10)
    )
    assert limit(annotations={AFTER: "5m"}) == IdleLimit(timedelta(minutes=5), timedelta(minutes=5))
    given = limit(annotations={AFTER: "5m", WARNING: "30s"})
    assert given == IdleLimit(timedelta(minutes=5), timedelta(seconds=30))


@pytest.mark.parametrize("text", ["soon", "30", "-5m", "9s", "90000h", "", "1e9h"])
def test_what_is_no_limit_names_the_field_the_value_and_the_cure(text: str) -> None:
    found = limit(annotations={AFTER: text})
    if not text:
        assert found is None
        return
    assert isinstance(found, Violation)
    assert str(found).startswith(f'metadata.annotations[{AFTER}]: "{text}": must be a duration')


def test_a_warning_that_is_no_duration_is_a_violation() -> None:
    assert isinstance(limit(annotations={AFTER: "5m", WARNING: "-1s"}), Violation)
    assert isinstance(limit(annotations={AFTER: "5m", WARNING: "x"}), Violation)


def test_the_first_default_that_selects_a_cluster_counts() -> None:
    defaults = "1h@team=research, 2h@dev, 8h"
    labelled = limit(defaults, labels={"team": "research"})
    assert labelled == IdleLimit(timedelta(hours=1), timedelta(minutes=10), is_default=True)
    by_namespace, by_none = limit(defaults), limit(defaults, namespace="prod")
    assert isinstance(by_namespace, IdleLimit)
    assert isinstance(by_none, IdleLimit)
    assert (by_namespace.after, by_none.after) == (timedelta(hours=2), timedelta(hours=8))


def test_zero_means_never_in_an_annotation_and_in_a_default() -> None:
    assert limit("8h", annotations={AFTER: "0"}) is None
    assert limit("0@dev,8h") is None


@pytest.mark.parametrize("text", ["8", "x@dev", "8h@", "8h@=1", "1h,,2s"])
def test_an_invalid_default_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="idle suspend"):
        checked_idle_defaults(text)


@pytest.mark.parametrize("after", [SHORTEST, LONGEST])
def test_the_shortest_and_the_longest_limit_are_valid(after: timedelta) -> None:
    found = limit(annotations={AFTER: f"{after // timedelta(seconds=1)}s"})
    assert isinstance(found, IdleLimit)
    assert found.after == after
