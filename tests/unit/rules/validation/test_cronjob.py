"""What can be wrong with a RayCronJob."""

from __future__ import annotations

from typing import Any

import pytest

from manta.rules.settings import Settings
from manta.rules.validation.cronjob import cronjob_violations
from support.raycronjob import TEMPLATE, a_cron


def fields(**spec: Any) -> list[str]:
    return [one.field for one in cronjob_violations(a_cron(**spec), Settings())]


def test_a_good_one_has_none() -> None:
    assert fields() == []
    assert fields(schedule="@every 1h30m", timeZone="Europe/Berlin") == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"name": "n" * 37}, "metadata.name"),
        ({"schedule": "TZ=Europe/Berlin * * * * *"}, "spec.schedule"),
        ({"schedule": "CRON_TZ=UTC * * * * *"}, "spec.schedule"),
        ({"schedule": "* * * *"}, "spec.schedule"),
        ({"schedule": ""}, "spec.schedule"),
        ({"schedule": "61 * * * *"}, "spec.schedule"),
        ({"timeZone": ""}, "spec.timeZone"),
        ({"timeZone": "Mars/Olympus"}, "spec.timeZone"),
        ({"timeZone": "../etc/passwd"}, "spec.timeZone"),
        (
            {"jobTemplate": {**TEMPLATE, "submissionMode": "Shout"}},
            "spec.jobTemplate.submissionMode",
        ),
        ({"jobTemplate": {"entrypoint": 7}}, "spec.jobTemplate"),
        (
            {"jobTemplate": {**TEMPLATE, "rayClusterSpec": {"headGroupSpec": {"template": {}}}}},
            "spec.jobTemplate.rayClusterSpec.headGroupSpec.template.spec.containers",
        ),
    ],
)
def test_each_rule_names_its_field(spec: dict[str, Any], field: str) -> None:
    assert field in fields(**spec)


def test_a_zone_in_the_schedule_points_to_the_right_field() -> None:
    (found,) = cronjob_violations(a_cron(schedule="TZ=UTC * * * * *"), Settings())
    assert "timeZone" in found.message


def test_a_name_of_36_is_allowed() -> None:
    assert fields(name="n" * 36) == []
