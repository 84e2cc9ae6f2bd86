"""C78: every name and label value that is derived from a cluster's name is valid, or it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.names import dns1035_label_errors, dns1123_subdomain_errors, label_value_errors
from manta.manifests.redis_cleanup import build_cleanup_job
from manta.reconcile.actions import Create
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode

SETTINGS = Settings(gates=FeatureGates(ray_cluster_network_policy=True))
FEATURES: dict[str, Any] = {
    "head": {"enableIngress": True},
    "annotations": {"ray.io/enable-serve-service": "true", "ray.io/ft-enabled": "true"},
    "enableInTreeAutoscaling": True,
    "authOptions": {"mode": "token"},
    "networkPolicy": {},
}


def made_for(name: str, group_name: str) -> list[dict[str, Any]]:
    groups = [group(group_name, numOfHosts=2)]
    scenario = Scenario(decode(ray_cluster(name, groups, **FEATURES)), SETTINGS)
    for _ in range(2):
        scenario.reconcile()
    made = [dict(one.manifest) for one in scenario.log if isinstance(one, Create)]
    return made + ([build_cleanup_job(scenario.cluster, SETTINGS)] if made else [])


@pytest.mark.parametrize("length", range(1, 65))
def test_c78_a_name_is_good_for_everything_or_refused_with_no_children(length: int) -> None:
    for group_name in ("g", "g" * 57):
        made = made_for("a" * length, group_name)
        assert bool(made) is (length <= 53)
        for one in made:
            _check(one)


def _check(manifest: dict[str, Any]) -> None:
    meta = manifest["metadata"]
    errors = dns1035_label_errors if manifest["kind"] == "Service" else dns1123_subdomain_errors
    assert not errors(meta["name"]), meta["name"]
    if manifest["kind"] in ("Pod", "Job"):
        assert len(meta["name"]) <= 63
    for value in meta["labels"].values():
        assert not label_value_errors(value), value
