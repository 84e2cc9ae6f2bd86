"""Jobs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.batch import Job


@pytest.mark.parametrize(
    ("conditions", "finished"),
    [
        ([], None),
        ([{"type": "Complete", "status": "True"}], "Complete"),
        ([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}], "Failed"),
        ([{"type": "Complete", "status": "False"}], None),
        ([{"type": "FailureTarget", "status": "True"}], None),
        ([{"type": "Suspended", "status": "True"}], None),
    ],
)
def test_a_job_is_finished_when_a_condition_says_so(
    conditions: list[dict[str, Any]], finished: str | None
) -> None:
    job = msgspec.convert({"status": {"conditions": conditions}}, Job)
    assert job.finished == finished


def test_the_pod_template_of_a_job_stays_raw() -> None:
    template = {"spec": {"containers": [{"name": "a", "aFieldOfTomorrow": {"x": [1]}}]}}
    assert msgspec.convert({"spec": {"template": template}}, Job).spec.template == template
