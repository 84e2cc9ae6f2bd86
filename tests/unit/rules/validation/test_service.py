"""RS1 to RS15: what is wrong with a RayService, each with its field and a cure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.ray.service import RayService
from manta.rules.settings import FeatureGates, Settings
from manta.rules.validation.service import initializing_timeout, service_violations
from manta.rules.validation.violation import Violation
from support.rayservice_objects import incremental, ray_service, scaled_config


def violations(name: str = "demo", settings: Settings | None = None, **spec: Any) -> dict[str, str]:
    service = msgspec.convert(ray_service(name, **spec), RayService)
    found = service_violations(service, settings or Settings())
    return {one.field: one.message for one in found}


def test_a_plain_service_is_valid() -> None:
    assert violations() == {}


def test_an_incremental_service_is_valid() -> None:
    spec: dict[str, Any] = {"upgradeStrategy": incremental(), "rayClusterConfig": scaled_config()}
    assert violations(**spec) == {}


@pytest.mark.parametrize(
    ("name", "cure"), [("a" * 48, "at most 47"), ("1abc", "begin with a letter"), ("a.b", "begin")]
)
def test_rs1_and_rs2_names(name: str, cure: str) -> None:
    assert cure in violations(name)["metadata.name"]


@pytest.mark.parametrize(
    ("text", "limit"), [("30m", timedelta(minutes=30)), ("90", timedelta(seconds=90)), ("", None)]
)
def test_rs3_timeouts_that_are_understood(text: str, limit: timedelta | None) -> None:
    document = ray_service(annotations={"ray.io/initializing-timeout": text})
    assert initializing_timeout(msgspec.convert(document, RayService)) == limit


@pytest.mark.parametrize("text", ["soon", "-5", "0", "-1m", "0s", "5 minutes"])
def test_rs3_timeouts_that_are_not(text: str) -> None:
    document = ray_service(annotations={"ray.io/initializing-timeout": text})
    service = msgspec.convert(document, RayService)
    assert isinstance(initializing_timeout(service), Violation)
    assert any(
        "initializing-timeout" in one.field for one in service_violations(service, Settings())
    )


def cluster(**changes: Any) -> dict[str, Any]:
    return {"rayClusterConfig": scaled_config() | changes}


def test_rs4_kubernetes_tokens_are_not_for_services() -> None:
    auth = {"authOptions": {"mode": "token", "enableK8sTokenAuth": True}}
    assert "spec.rayClusterConfig.authOptions.enableK8sTokenAuth" in violations(**cluster(**auth))


def test_rs5_the_rules_of_the_cluster_are_reported_at_its_path() -> None:
    found = violations(**cluster(headGroupSpec={"template": {"spec": {"containers": []}}}))
    assert any(field.startswith("spec.rayClusterConfig.headGroupSpec") for field in found)


def test_rs6_a_head_service_has_no_name_of_its_own() -> None:
    head = scaled_config()["headGroupSpec"] | {"headService": {"metadata": {"name": "mine"}}}
    found = violations(**cluster(headGroupSpec=head))
    assert "spec.rayClusterConfig.headGroupSpec.headService.metadata.name" in found


def test_rs7_the_upgrade_type_is_one_of_three() -> None:
    assert "spec.upgradeStrategy.type" in violations(upgradeStrategy={"type": "Slowly"})


def test_rs8_a_delay_is_not_negative() -> None:
    assert "spec.rayClusterDeletionDelaySeconds" in violations(rayClusterDeletionDelaySeconds=-1)
    assert violations(rayClusterDeletionDelaySeconds=0) == {}


def test_rs9_an_incremental_upgrade_needs_the_autoscaler() -> None:
    found = violations(upgradeStrategy=incremental())
    assert "spec.rayClusterConfig.enableInTreeAutoscaling" in found


def test_rs10_and_its_options() -> None:
    strategy = {"type": "NewClusterWithIncrementalUpgrade"}
    found = violations(upgradeStrategy=strategy, **cluster())
    assert "spec.upgradeStrategy.clusterUpgradeOptions" in found


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxSurgePercent", 101),
        ("maxSurgePercent", -1),
        ("stepSizePercent", None),
        ("stepSizePercent", 101),
        ("stepSizePercent", 51),
        ("intervalSeconds", 0),
        ("intervalSeconds", None),
        ("gatewayClassName", ""),
    ],
)
def test_rs11_to_rs15_options(option: str, value: Any) -> None:
    strategy = incremental(25, 50)
    strategy["clusterUpgradeOptions"][option] = value
    found = violations(upgradeStrategy=strategy, **cluster())
    assert f"spec.upgradeStrategy.clusterUpgradeOptions.{option}" in found


@pytest.mark.parametrize(("step", "surge"), [(0, 0), (100, 100)])
def test_the_ends_of_both_percentages_are_valid(step: int, surge: int) -> None:
    assert violations(upgradeStrategy=incremental(step, surge), **cluster()) == {}


def test_no_surge_given_means_all_at_once() -> None:
    strategy = incremental(100, 50)
    del strategy["clusterUpgradeOptions"]["maxSurgePercent"]
    assert violations(upgradeStrategy=strategy, **cluster()) == {}


def test_an_incremental_upgrade_needs_its_gate() -> None:
    off = Settings(gates=FeatureGates(ray_service_incremental_upgrade=False))
    found = violations(settings=off, upgradeStrategy=incremental(), **cluster())
    assert "feature gate" in found["spec.upgradeStrategy.type"]


def test_a_clusters_own_upgrade_strategy_has_no_place_here() -> None:
    found = violations(**cluster(upgradeStrategy={"type": "Recreate"}))
    assert "spec.rayClusterConfig.upgradeStrategy.type" in found


def test_invalid_serve_yaml_is_a_violation() -> None:
    assert "spec.serveConfigV2" in violations(serveConfigV2="a: [")
