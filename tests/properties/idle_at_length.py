"""A thousand days with generated activity; `make idle` prints what happened in them."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import count

import pytest

from support.idle_days import Report, simulate

DAYS = 1000


@pytest.mark.timeout(1800)
def test_in_a_thousand_days_nothing_is_suspended_wrongly_or_late() -> None:
    total = Report()
    for seed in count(100):
        report = simulate(seed, limits=300)
        total.days += report.days
        total.suspended += report.suspended
        total.uses += report.uses
        total.questions += report.questions
        total.writes += report.writes
        total.idle_hours += report.idle_hours
        total.counted_hours += report.counted_hours
        total.wrong += [f"seed {seed}: {one}" for one in report.wrong]
        total.late += [f"seed {seed}: {one}" for one in report.late]
        if total.days >= DAYS and seed >= 130:
            break
    print(json.dumps(asdict(total)))  # noqa: T201  what `make idle` is for
    assert total.wrong == []
    assert total.late == []
    assert total.suspended > 1000
