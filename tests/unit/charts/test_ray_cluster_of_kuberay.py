"""The RayClusters of charts/ray-cluster are those of KubeRay's chart for the same values.

The golden files hold the facts. MANTA_KUBERAY_CHART=DIR (KubeRay's helm-chart/ray-cluster) renders its own chart as
well: for the golden values, and for every case of the tests that it ships.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import ROOT, helm, rendered

GOLDEN = ROOT / "tests/golden/ray-cluster"
CHART = ROOT / "charts/ray-cluster"
KUBERAY = os.environ.get("MANTA_KUBERAY_CHART", "")
RELEASE = {"release": "test", "namespace": "ray"}
Json = dict[str, Any]

needs_kuberay = pytest.mark.skipif(not KUBERAY, reason="MANTA_KUBERAY_CHART is not set")


def cluster(chart: Path, values: Path, *options: str) -> Json:
    """The RayCluster of a values file, without the label that names the chart and its version."""
    [found] = rendered("-f", values, *options, chart=chart, **RELEASE)
    spec = found["spec"]
    templates = [spec["headGroupSpec"], *(spec.get("workerGroupSpecs") or ())]
    for one in (found, *(group["template"] for group in templates)):
        one["metadata"]["labels"].pop("helm.sh/chart", None)
    spec["workerGroupSpecs"] = spec.get("workerGroupSpecs") or []
    return found


def cases() -> list[Json]:
    file = Path(KUBERAY) / "tests/raycluster_test.yaml"
    return list(yaml.safe_load(file.read_text())["tests"]) if KUBERAY else []


@needs_kuberay
@pytest.mark.parametrize("values", ["default", "kuberay-groups"])
def test_the_golden_values_mean_the_same_there(values: str) -> None:
    file = GOLDEN / f"{values}.values.yaml"
    assert cluster(CHART, file) == cluster(Path(KUBERAY), file)


@needs_kuberay
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["it"])
def test_every_case_of_its_tests_means_the_same_here(case: Json, tmp_path: Path) -> None:
    """Its cases with `valueFrom.secretRef`, which Kubernetes does not know, need the schema to be skipped."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(case.get("set", {})))
    skipped = ("--skip-schema-validation",) if "secretRef" in file.read_text() else ()
    assert cluster(CHART, file, *skipped) == cluster(Path(KUBERAY), file)
    linted = helm("lint", "--strict", CHART, "-f", file, check=False)
    assert skipped or linted.returncode == 0, linted.stdout
