"""Our CRDs beside KubeRay's: nothing is missing, nothing is said differently."""

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
    assert result.differing == ()
    assert result.added == (
        "raycronjobs.ray.io/v1:.spec.failedJobsHistoryLimit",
        "raycronjobs.ray.io/v1:.spec.successfulJobsHistoryLimit",
    )
