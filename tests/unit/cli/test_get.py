"""What `manta get` says that an object waits for."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.ray.resources import RAY_SERVICES
from manta.cli.get import waits_for

READY = {"type": "Ready", "status": "True", "message": "2 Pods take requests"}
STARTS = {"type": "Ready", "status": "False", "message": 'application "app"\nis DEPLOYING'}
UPGRADE = {"type": "UpgradeInProgress", "status": "True", "message": "the head of echo-b"}


@pytest.mark.parametrize(
    ("conditions", "reported"),
    [
        ([READY], ""),
        ([STARTS], 'application "app" is DEPLOYING'),
        ([READY, UPGRADE], "upgrade: the head of echo-b"),
        ([READY, {**UPGRADE, "status": "False"}], ""),
    ],
)
def test_a_service_says_why_it_does_not_serve_or_what_its_upgrade_waits_for(
    conditions: list[dict[str, Any]], reported: str
) -> None:
    assert waits_for(RAY_SERVICES, {"status": {"conditions": conditions}}) == reported
