"""Our CRDs beside KubeRay's: nothing is missing, and what is said differently is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from manta.api.crds import crd_documents

ROOT = Path(__file__).parents[2]
KUBERAY = Path("/work/shared/data/kuberay-crds")


def test_nothing_of_kuberay_is_missing_or_different(monkeypatch: pytest.MonkeyPatch) -> None:
    if not KUBERAY.is_dir():
        pytest.skip("KubeRay's CRDs are not on this machine")
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.crds.compare import compare, facts, load

    result = compare(facts(load(KUBERAY)), facts(crd_documents()))
    assert result.missing == ()
    # Keyed by name, a group can be applied without `replicas`, which the autoscaler owns (C10), and
    # the server itself refuses two groups of one name (C13). KubeRay's list is replaced as a whole.
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["groupName"]}
    for place, theirs, ours in result.differing:
        assert place.endswith(".workerGroupSpecs")
        assert ours == {**theirs, **keyed}
    conditions = "rayjobs.ray.io/v1:.status.conditions"
    assert [one for one in result.added if not one.startswith(conditions)] == [
        "raycronjobs.ray.io/v1:.spec.failedJobsHistoryLimit",
        "raycronjobs.ray.io/v1:.spec.successfulJobsHistoryLimit",
    ]
    assert conditions in result.added
