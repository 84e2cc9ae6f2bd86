"""`manta install` and `uninstall` where no server is needed: wishes, words, verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.selectors import parse_label_selector
from manta.api.usage import UsageError
from manta.cli.main import main
from manta.cli.uninstall import _summary, chosen
from manta.client.readiness import judge
from manta.install.installed import LABELS, Installed, everything, superseded
from manta.install.operator_manifests import Installation, all_objects, needed_features
from manta.install.plane import OURS, resource_of


def test_printing_the_objects_asks_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["install", "--print", "--image", "i", "-n", "ray", "--kubeconfig", "/nonexistent"])
        == 0
    )
    features = needed_features(["RayCronJob", "RayServiceIncrementalUpgrade"])
    wished = all_objects(Installation(namespace="ray", image="i", features=features))
    assert capsys.readouterr().out == "".join(f"---\n{to_yaml(one)}" for one in wished)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["install", "--replicas", "0"], "1 or more"),
        (
            ["install", "--image", "i", "--print", "--feature-gates", "Nonsense=true"],
            "unknown feature gate",
        ),
        (["install"], "--image is missing: no image is published yet"),
        (["uninstall", "--force"], "--force needs --crds"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


WISHES = [
    Installation(),
    Installation(replicas=2, watch=("a",)),
    Installation(webhook=True),
]


@pytest.mark.parametrize("wished", WISHES)
def test_an_uninstall_finds_everything_that_an_install_made(wished: Installation) -> None:
    matches = parse_label_selector(LABELS).matches
    for resource, one in made(wished):
        assert resource in OURS
        assert matches(one["metadata"]["labels"])


def made(wished: Installation) -> Installed:
    """All but what is the user's from the moment that it is there."""
    kept = ("Namespace", "CustomResourceDefinition")
    return [(resource_of(one), one) for one in all_objects(wished) if one["kind"] not in kept]


def superseded_by(wished: Installation, before: Installation) -> set[tuple[str, str]]:
    gone = superseded(made(before), wished.namespace, made(wished))
    return {(resource.kind, str(key)) for resource, key in gone}


def test_an_install_with_other_wishes_takes_away_what_it_does_not_want() -> None:
    everywhere, here = Installation(), Installation(watch=("a", "b"))
    assert superseded_by(everywhere, everywhere) == set()
    assert superseded_by(here, everywhere) == {
        ("ClusterRole", "manta"),
        ("ClusterRoleBinding", "manta"),
    }
    assert superseded_by(Installation(watch=("b",)), here) == {
        ("Role", "a/manta"),
        ("RoleBinding", "a/manta"),
    }
    assert superseded_by(everywhere, Installation(replicas=2)) == {
        ("PodDisruptionBudget", "manta-system/manta")
    }


def test_a_webhook_that_is_not_wanted_any_more_goes_with_its_secret() -> None:
    with_it = Installation(webhook=True)
    gone = superseded_by(Installation(), with_it)
    kinds = {kind for kind, _ in gone}
    assert kinds == {resource.kind for resource in OURS if resource.kind in kinds} | {"Secret"}
    assert ("Secret", "manta-system/manta-webhook-certificates") in gone
    assert {name.rpartition("/")[2] for kind, name in gone if kind != "Secret"} == {"manta-webhook"}
    assert len(gone) == 10
    assert superseded_by(with_it, with_it) == set()


def test_an_install_leaves_alone_what_serves_an_operator_in_another_namespace() -> None:
    another = Installation(namespace="theirs", watch=("manta-system", "b"), webhook=True)
    assert superseded_by(Installation(), another) == set()


def test_of_two_operators_only_the_one_that_is_named_is_removed() -> None:
    mine = Installation(namespace="mine", watch=("a",), webhook=True)
    theirs = Installation(namespace="theirs", watch=("b", "mine"))
    both = [*made(mine), *made(theirs)]
    with pytest.raises(UsageError, match="installed in mine, theirs: select one"):
        chosen(both, "")
    assert chosen(both, "mine") == everything(made(mine))
    assert chosen(both, "theirs") == everything(made(theirs))
    assert chosen(made(mine), "") == everything(made(mine))


def test_nobody_is_asked_who_is_gone_already() -> None:
    kinds = [resource.kind for resource in OURS]
    asked = kinds.index("ValidatingWebhookConfiguration")
    assert asked < kinds.index("Deployment")
    order = [one["kind"] for _, one in made(Installation(webhook=True))]
    assert order[-1] == "ValidatingWebhookConfiguration"


def test_what_would_be_lost_is_counted_and_named() -> None:
    clusters = [(RAY_CLUSTERS, Key("team", name)) for name in ("a", "b")]
    reported = _summary([*clusters, (RAY_JOBS, Key("team", "j"))])
    assert reported == "2 RayClusters, 1 RayJob (team/a, team/b, team/j)"
    many = _summary([(RAY_JOBS, Key("n", str(number))) for number in range(11)])
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
    assert old.why == "waiting for the first reconcile of this generation"
    rolling = judge("Deployment", deployment(2, observedGeneration=2, updatedReplicas=1))
    assert "1 of 2 Pods are of the new template" in rolling.why
