"""Our CRDs beside KubeRay's: nothing is missing, and what is said differently is meant.

`kuberay_fields.txt` records the fields that KubeRay 1.7 adds to those of Kubernetes, as facts: kind, path,
type, and where there are some the allowed values, the default and the required fields. It is compared on every
machine; KubeRay's whole CRDs, Pod templates included, only where they are at hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tools.crds.compare import Facts, compare, facts, load

from manta.api.crds import crd_documents
from support.peers import KUBERAY_CRDS

FIELDS = Path(__file__).with_name("kuberay_fields.txt").read_text().splitlines()
STRATEGY = ".upgradeStrategy.type"
"""Of a RayCluster: the one field of KubeRay's to which we add a value."""


def _said(schema: dict[str, Any]) -> str:
    """The facts of one field in the words of `kuberay_fields.txt`."""
    words = [schema.get("type", "any")]
    if "enum" in schema:
        words.append("one of " + "|".join(map(str, schema["enum"])))
    if "default" in schema:
        words.append(f"default {schema['default']}")
    if schema.get("required"):
        words.append("requires " + ",".join(schema["required"]))
    return " ; ".join(words)


@pytest.fixture(scope="module")
def ours() -> Facts:
    return facts(crd_documents())


@pytest.mark.parametrize("line", FIELDS, ids=lambda line: " ".join(line.split(" ")[:2]))
def test_a_field_of_kuberay_is_there_and_means_the_same(ours: Facts, line: str) -> None:
    kind, path, said = line.split(" ", 2)
    if said == "string ; one of None|Recreate" and path.endswith(STRATEGY):
        said += "|RollingUpdate"
    assert _said(ours[f"{kind}.ray.io/v1:{path}"]) == said


def test_nothing_of_kuberay_is_missing_or_different(ours: Facts) -> None:
    if not KUBERAY_CRDS.is_dir():
        pytest.skip("KubeRay's CRDs are not on this machine")
    result = compare(facts(load(KUBERAY_CRDS)), ours)
    assert result.missing == ()
    # Keyed by name, a group can be applied without `replicas`, which the autoscaler owns (C10), and
    # the server itself refuses two groups of one name (C13). KubeRay's list is replaced as a whole.
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["groupName"]}
    for place, theirs, our in result.differing:
        if place.endswith(STRATEGY):
            assert our == {**theirs, "enum": [*theirs["enum"], "RollingUpdate"]}
            continue
        assert place.endswith(".workerGroupSpecs")
        assert our == {**theirs, **keyed}
    conditions = "rayjobs.ray.io/v1:.status.conditions"
    given = ".serveSubmission"  # what each cluster's Serve was given last
    strategies = (".canaryUpgradeOptions", ".upgradeStrategy.rollingUpdate")
    ours_alone = (":.status.conditions", given, *strategies)
    added = [one for one in result.added if not any(word in one for word in ours_alone)]
    assert added == [
        "raycronjobs.ray.io/v1:.spec.failedJobsHistoryLimit",
        "raycronjobs.ray.io/v1:.spec.successfulJobsHistoryLimit",
    ]
    assert conditions in result.added
