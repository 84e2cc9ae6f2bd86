"""The text of `ray status`, of both versions of the autoscaler."""

from __future__ import annotations

import pytest

from manta.ray.autoscaler_report import AutoscalerReport, Demand, read_report
from manta.ray.models import Unreachable

SECOND = """\
======== Autoscaler status: 2026-11-18 11:40:00.000000 ========
Node status
---------------------------------------------------------------
Active:
 1 headgroup
Idle:
 1 small
Pending:
 small, 2 launching
 10.0.0.7: small, starting ray
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Total Usage:
 2.0/2.0 CPU
 0B/4.00GiB memory

From request_resources:
 (none)
Pending Demands:
 {'CPU': 1.0}: 12+ pending tasks/actors
 {'GPU': 1.0} * 2 (STRICT_PACK): 1+ pending placement groups
"""
FIRST = """\
======== Autoscaler status: 2026-11-18 11:40:00.000000 ========
Node status
---------------------------------------------------------------
Healthy:
 1 head-group
Pending:
 (no pending nodes)
Recent failures:
 small: NodeTerminated (ip: 10.0.0.9)

Resources
---------------------------------------------------------------
Usage:
 0.0/1.0 CPU

Demands:
 (no resource demands)
"""


def test_the_second_version_is_read() -> None:
    assert read_report(SECOND) == AutoscalerReport(
        active=("1 headgroup",),
        idle=("1 small",),
        pending=("small, 2 launching", "10.0.0.7: small, starting ray"),
        usage=("2.0/2.0 CPU", "0B/4.00GiB memory"),
        demands=(
            Demand("{'CPU': 1.0}", 12, "pending tasks/actors"),
            Demand("{'GPU': 1.0} * 2 (STRICT_PACK)", 1, "pending placement groups"),
        ),
    )


def test_the_first_version_is_read() -> None:
    report = read_report(FIRST)
    assert isinstance(report, AutoscalerReport)
    assert (report.active, report.waiting) == (("1 head-group",), 0)
    assert report.failures == ("small: NodeTerminated (ip: 10.0.0.9)",)


@pytest.mark.parametrize("text", ["", "No cluster status.", "x" * 10_000, "Active:\n 1 head"])
def test_a_text_without_demands_is_no_report(text: str) -> None:
    assert isinstance(read_report(text), Unreachable)


def test_what_is_kept_of_a_long_text_is_bounded() -> None:
    lines = "".join(f" {{'x{number}': 1.0}}: 1+ pending tasks/actors\n" for number in range(5000))
    report = read_report(f"Pending Demands:\n{lines}")
    assert isinstance(report, AutoscalerReport)
    assert len(report.demands) < 200
