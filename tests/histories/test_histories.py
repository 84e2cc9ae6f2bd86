"""Concurrent clients against a server that is killed with -9: what is acknowledged stays.

A few short histories; `make histories` runs a thousand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from histories.runner import Plan, run_history

PLANS = [
    Plan(1, kills=2, shortest=0.5, longest=1.5),
    Plan(2, kills=1, shortest=0.5, longest=1.5),
    Plan(3, kills=1, longest=1.5, options=()),
    Plan(4, kills=2, shortest=0.5, longest=1.5, options=("--durable", "--no-controllers")),
    Plan(5, kills=1, shortest=0.5, longest=1.5),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"seed-{plan.seed}")
async def test_nothing_acknowledged_is_lost_and_no_event_missed(plan: Plan, tmp_path: Path) -> None:
    result = await run_history(tmp_path, plan)
    assert result.violations == []
    # How many calls fit between two kills is the machine's affair; that some did is ours.
    assert result.history.calls
