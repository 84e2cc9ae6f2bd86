"""`manta install` and `uninstall` where no server is needed: wishes, words, verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.cli.follow import judge
from manta.cli.installation import OURS, resource_of
from manta.cli.main import main
from manta.cli.operator_objects import (
    MANAGER,
    NAME,
    SELECTOR,
    Installation,
    all_objects,
    needed_features,
)
from manta.cli.uninstall import _told
from manta.cli.yamltext import to_yaml


def test_printing_the_objects_asks_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--print", "-n", "ray", "--kubeconfig", "/nonexistent"]) == 0
    features = needed_features(["RayCronJob", "RayServiceIncrementalUpgrade"])
    wished = all_objects(Installation(namespace="ray", features=features))
    assert capsys.readouterr().out == "".join(f"---\n{to_yaml(one)}" for one in wished)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["install", "--replicas", "0"], "1 or more"),
        (["install", "--print", "--feature-gates", "Nonsense=true"], "unknown feature gate"),
        (["uninstall", "--force"], "--force is about --crds"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_an_uninstall_finds_everything_that_an_install_made() -> None:
    wished = Installation(replicas=2, watch=("a",))
    for one in [*all_objects(Installation()), *all_objects(wished)]:
        if one["kind"] in ("Namespace", "CustomResourceDefinition"):
            continue  # the user's, from the moment that they are there
        assert resource_of(one) in OURS
        labels = one["metadata"]["labels"]
        assert {**SELECTOR, MANAGER: NAME}.items() <= labels.items()


def test_what_would_be_lost_is_counted_and_named() -> None:
    clusters = [(RAY_CLUSTERS, Key("team", name)) for name in ("a", "b")]
    told = _told([*clusters, (RAY_JOBS, Key("team", "j"))])
    assert told == "2 RayClusters, 1 RayJob (team/a, team/b, team/j)"
    many = _told([(RAY_JOBS, Key("n", str(number))) for number in range(11)])
    assert many.startswith("11 RayJobs (n/0,")
    assert many.endswith("n/9, ...)")


def deployment(generation: int, **status: Any) -> dict[str, Any]:
    available = {"type": "Available", "status": "True"}
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": 2},
        "status": {"conditions": [available], **status},
    }


def test_an_available_deployment_counts_only_with_its_newest_template() -> None:
    assert judge("Deployment", deployment(2, observedGeneration=2, updatedReplicas=2)).ready
    old = judge("Deployment", deployment(2, observedGeneration=1, updatedReplicas=2))
    assert old.why == "its change has not been looked at yet"
    rolling = judge("Deployment", deployment(2, observedGeneration=2, updatedReplicas=1))
    assert "1 of 2 Pods are of the new kind" in rolling.why
