"""Times: what is printed reads back, and the order of texts is the order of moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from manta.api.times import format_micro_time, format_time, parse_time

zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=zones,
)


@given(moments)
def test_a_printed_time_reads_back_to_the_second(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment.astimezone(UTC).replace(microsecond=0)


@given(moments)
def test_a_printed_micro_time_reads_back_exactly(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment


@given(moments, moments)
def test_texts_sort_as_moments_do(a: datetime, b: datetime) -> None:
    assert (format_micro_time(a) < format_micro_time(b)) is (a < b)


@given(moments)
def test_an_offset_changes_the_text_and_not_the_moment(moment: datetime) -> None:
    assert parse_time(moment.isoformat()) == moment
