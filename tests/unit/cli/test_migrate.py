"""Who counts as a live KubeRay, and how a fate is worded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manta.api.times import format_micro_time
from manta.cli.migrate import Rival, fate, of_deployment, of_lease
from manta.cli.operator_objects import Installation, all_objects
from manta.cli.rehearsal import Place, Step

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def lease(holder: str, ago: float) -> dict[str, Any]:
    renewed = format_micro_time(NOW - timedelta(seconds=ago))
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return {"metadata": {"namespace": "ray", "name": "ray-operator-leader"}, "spec": spec}


def test_a_lease_counts_while_kuberay_renews_it() -> None:
    assert of_lease(lease("kuberay-operator-6f_uuid", 3), NOW) is not None
    assert of_lease(lease("kuberay-operator-6f_uuid", 60), NOW) is None
    assert of_lease(lease("laptop_41cb9c9e-7f0e-4d3f-9d6a-0f3c2b1a4e55", 3), NOW) is not None
    assert of_lease(lease("manta-operator-6f_1_aa", 3), NOW) is None
    assert of_lease(lease("laptop_4711_0f3c2b1a", 3), NOW) is None  # as we sign


@pytest.mark.parametrize(
    ("args", "namespaces"),
    [
        ([], ()),
        (["--watch-namespace=a,b"], ("a", "b")),
        (["--watch-namespace", "a"], ("a",)),
        (["-watch-namespace=a"], ("a",)),
    ],
)
def test_the_watched_namespaces_are_read_from_the_flags(
    args: list[str], namespaces: tuple[str, ...]
) -> None:
    container = {"image": "mirror.example.com/kuberay/operator:v1.6.2", "args": args}
    spec = {"template": {"spec": {"containers": [container]}}}
    found = of_deployment({"metadata": {"namespace": "x", "name": "y"}, "spec": spec})
    assert found is not None
    assert found.namespaces == namespaces


def test_another_deployment_is_no_rival() -> None:
    spec = {"template": {"spec": {"containers": [{"image": "rayproject/ray:2.60.0"}]}}}
    assert of_deployment({"metadata": {"namespace": "x", "name": "y"}, "spec": spec}) is None


def test_rivals_meet_where_either_watches_everything_or_both_the_same() -> None:
    assert Rival("", (), "").meets(["a"])
    assert Rival("", ("a",), "").meets([])
    assert Rival("", ("a", "b"), "").meets(["b"])
    assert not Rival("", ("a",), "").meets(["b"])


def one(**spec: Any) -> dict[str, Any]:
    return {"kind": "RayCluster", "metadata": {"namespace": "ns", "name": "c"}, "spec": spec}


def test_a_fate_is_told_in_words() -> None:
    assert fate(one(), []) == "goes on as it is"
    told = Step("tell", "rayclusters", "ns", "c")
    assert fate(one(), [told]) == "goes on; its status is brought up to date"
    pod = Step("delete", "pods", "ns", "p", refused="no")
    assert fate(one(), [told, pod]) == "delete pods/p, which the server refuses: no"
    assert fate(one(managedBy="kueue.x-k8s.io/multikueue"), []).startswith("left alone")


def test_a_path_is_taken_apart() -> None:
    assert Place.of("/api/v1/namespaces/ns/pods/p") == Place("pods", "ns", "p")
    assert Place.of("/apis/ray.io/v1/namespaces/ns/rayjobs/j/status") == Place(
        "rayjobs", "ns", "j", "status"
    )
    proxy = "/api/v1/namespaces/ns/services/s:dashboard/proxy/api/jobs/"
    assert Place.of(proxy) == Place("services", "ns", "s:dashboard", "proxy", "api/jobs")
    assert Place.of("/api/v1/namespaces/ns") == Place("namespaces", "", "ns")


def test_our_own_deployment_is_not_taken_for_kuberays() -> None:
    """It carries KubeRay's labels, so that those who look for KubeRay find it (E9)."""
    documents = all_objects(Installation())
    [deployment] = [one for one in documents if one["kind"] == "Deployment"]
    assert of_deployment(deployment) is None
