"""An upgrade in bars and sentences."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.meta import ObjectMeta
from manta.api.ray.service import RayService, RayServiceStatuses
from manta.cli.output.upgrade_view import bar, line, picture
from manta.client.upgrade_state import Stage, view_of

ACTIVE = {"rayClusterName": "echo-a", "trafficRoutedPercent": 60, "targetCapacity": 80}
PENDING = {
    "rayClusterName": "echo-b",
    "trafficRoutedPercent": 40,
    "targetCapacity": 50,
    "applicationStatuses": {"app": {"status": "DEPLOYING"}, "other": {"status": "RUNNING"}},
}


def service(*, generation: int = 3, **status: Any) -> RayService:
    reported = {"observedGeneration": 3, **status}
    return RayService(
        metadata=ObjectMeta(name="echo", namespace="default", generation=generation),
        status=msgspec.convert(reported, RayServiceStatuses),
    )


def said(type_: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


READY = said("Ready", "True", "NonZeroServeEndpoints")
UPGRADING = said("UpgradeInProgress", "True", "BothActivePendingClustersExist", "the gateway")


def test_a_split_is_shown_as_a_bar_of_traffic_and_of_capacity_for_each_cluster() -> None:
    view = view_of(
        service(
            activeServiceStatus=ACTIVE,
            pendingServiceStatus=PENDING,
            conditions=[READY, UPGRADING],
        )
    )
    assert picture(view, 75) == [
        "rayservice/echo is being upgraded   01:15",
        "  echo-a  active   traffic ████████████░░░░░░░░  60 %   capacity ████████████████░░░░  80 %",
        (
            "  echo-b  pending  traffic ████████░░░░░░░░░░░░  40 %   capacity ██████████░░░░░░░░░░  50 %"
            "   app DEPLOYING"
        ),
        "  waits for: the gateway",
    ]


def test_without_a_terminal_it_is_one_line() -> None:
    view = view_of(
        service(
            activeServiceStatus=ACTIVE,
            pendingServiceStatus=PENDING,
            conditions=[READY, UPGRADING],
        )
    )
    assert line(view) == (
        "rayservice/echo is being upgraded; echo-a (active) traffic 60 % capacity 80 %;"
        " echo-b (pending) traffic 40 % capacity 50 %; waits for: the gateway"
    )


def test_a_switch_at_once_has_all_traffic_on_one_side() -> None:
    view = view_of(
        service(
            activeServiceStatus={"rayClusterName": "echo-a"},
            pendingServiceStatus={"rayClusterName": "echo-b"},
            conditions=[READY, UPGRADING],
        )
    )
    assert [(one.traffic, one.capacity) for one in view.sides] == [(100, 100), (0, 100)]


@pytest.mark.parametrize(
    ("status", "stage"),
    [
        ({"generation": 4, "conditions": [READY]}, Stage.NOT_OBSERVED),
        ({}, Stage.STARTING),
        ({"pendingServiceStatus": PENDING, "conditions": [UPGRADING]}, Stage.STARTING),
        (
            {
                "activeServiceStatus": ACTIVE,
                "pendingServiceStatus": PENDING,
                "conditions": [said("RollbackInProgress", "True", "DesiredClusterSpecChanged")],
            },
            Stage.ROLLING_BACK,
        ),
        ({"activeServiceStatus": ACTIVE, "conditions": [READY]}, Stage.COMPLETE),
        (
            {"activeServiceStatus": ACTIVE, "conditions": [said("Ready", "False", "Zero")]},
            Stage.STARTING,
        ),
        ({"conditions": [said("Ready", "False", "ValidationFailed")]}, Stage.FAILED),
        ({"conditions": [said("Ready", "False", "InitializingTimeout")]}, Stage.FAILED),
        ({"conditions": [said("Ready", "False", "SuspendComplete")]}, Stage.FAILED),
    ],
)
def test_each_stage_is_distinguished(status: dict[str, Any], stage: Stage) -> None:
    assert view_of(service(**status)).stage is stage


def test_a_failure_is_reported_with_its_reason() -> None:
    wrong = said("Ready", "False", "ValidationFailed", "spec.serveConfigV2: not YAML")
    view = view_of(service(conditions=[wrong]))
    assert view.verdict == "rayservice/echo failed: spec.serveConfigV2: not YAML"


@pytest.mark.parametrize(("percent", "filled"), [(0, 0), (1, 0), (50, 10), (100, 20), (140, 20)])
def test_a_bar_is_never_longer_than_its_frame(percent: int, filled: int) -> None:
    assert bar(percent).count("█") == filled
    assert len(bar(percent).rpartition(" ")[0].split(" ")[0]) == 20
