"""CPU- and GPU-hours in an annotation: counted by day, bounded, and readable again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.rules.usage import KEPT_DAYS, Hours, Usage, UseState, changed, hours_since, totals

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_hours_count_for_the_state_and_the_day_in_which_they_passed() -> None:
    usage = changed(None, NOON, UseState.USED, 4, 1)
    usage = changed(usage, NOON + timedelta(hours=6), UseState.IDLE, 4, 1)
    usage = changed(usage, NOON + timedelta(hours=15), UseState.NONE, 4, 1)
    assert usage.total == Hours(24, 36, 6, 9)
    assert usage.days[NOON.date()] == Hours(24, 24, 6, 6)
    assert usage.days[NOON.date() + timedelta(days=1)] == Hours(0, 12, 0, 3)
    assert hours_since(usage, NOON + timedelta(hours=13), NOON + timedelta(days=3)) == Hours(
        0, 12, 0, 3
    )


def test_what_runs_now_counts_until_now() -> None:
    usage = changed(None, NOON, UseState.IDLE, 2, 0)
    assert hours_since(usage, NOON, NOON + timedelta(hours=3)) == Hours(idle_cpu=6)
    assert usage.until(NOON - timedelta(hours=1)) == usage, "a clock that went back counts nothing"


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3 * 86400),
            st.sampled_from(UseState),
            st.integers(0, 64),
            st.integers(0, 8),
        ),
        max_size=60,
    )
)
def test_the_text_is_bounded_and_says_the_same_again(
    changes: list[tuple[int, UseState, int, int]],
) -> None:
    usage, now, truth = changed(None, NOON, UseState.NONE, 0, 0), NOON, 0.0
    for seconds, state, cpus, gpus in changes:
        if usage.state is UseState.IDLE:
            truth += usage.cpus * seconds / 3600
        now += timedelta(seconds=seconds)
        usage = changed(Usage.parse(usage.text), now, state, cpus, gpus)
        assert len(usage.days) <= KEPT_DAYS
        assert len(usage.text) < 4000
    again = Usage.parse(usage.text)
    assert again is not None
    assert again.text == usage.text
    assert usage.total.idle_cpu == pytest.approx(truth, rel=1e-3, abs=0.01)


@pytest.mark.parametrize(
    "text",
    ["", "x", "idle;total", "idle yesterday 1 1;total 0 0 0 0", "used 2026-01-01T00:00:00Z -1 0;total 0 0 0 0",
     "used 2026-01-01T00:00:00Z nan 0;total 0 0 0 0", "used 2026-01-01T00:00:00Z 1 0;total 0 0 0"],
)  # fmt: skip
def test_text_that_cannot_be_read_begins_again(text: str) -> None:
    assert Usage.parse(text) is None


def test_parts_of_seconds_are_not_counted_twice() -> None:
    """The annotation has whole seconds: what it loses at the end of an hour must not be in the next one."""
    usage, now = changed(None, NOON, UseState.USED, 1, 100), NOON
    for number in range(400):
        now += timedelta(seconds=30.9)
        state = UseState.USED if number % 2 else UseState.IDLE
        usage = Usage.parse(changed(usage, now, state, 1, 100).text) or usage
    total = usage.until(now).total
    truth = 100 * (now - NOON).total_seconds() / 3600
    assert total.used_gpu + total.idle_gpu == pytest.approx(truth, rel=1e-3)
    assert total.idle_gpu == pytest.approx(truth / 2, rel=5e-3)


def test_a_cluster_without_pods_has_no_resources() -> None:
    usage = changed(None, NOON, UseState.NONE, 4, 1)
    assert (usage.cpus, usage.gpus) == (0, 0)


@pytest.mark.parametrize(
    ("by", "hours"),
    [
        ("cluster", {"a/two": (0, 9), "b/three": (4, 0), "a/one": (2, 0)}),
        ("namespace", {"a": (2, 9), "b": (4, 0)}),
        ("user", {"ann": (4, 9), "": (2, 0)}),
        ("team", {"ml": (2, 9), "": (4, 0)}),
    ],
)
def test_hours_are_summed_by_group_with_the_most_idle_first(
    by: str, hours: dict[str, tuple[int, int]]
) -> None:
    """Idle GPUs before idle CPUs."""
    ann = {names.LABEL_USER: "ann"}
    clusters = [
        (ObjectMeta(name="one", namespace="a", labels={"team": "ml"}), (2, 0)),
        (ObjectMeta(name="three", namespace="b", labels=ann), (4, 0)),
        (ObjectMeta(name="two", namespace="a", labels={**ann, "team": "ml"}), (0, 9)),
    ]
    idle = [(meta, changed(None, NOON, UseState.IDLE, *amounts)) for meta, amounts in clusters]
    found = totals(idle, by, NOON, NOON + timedelta(hours=1))
    assert [(who, (one.idle_cpu, one.idle_gpu)) for who, one in found.items()] == list(
        hours.items()
    )
