"""Who counts as a live KubeRay, and how its changes are reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manta.api.times import format_micro_time
from manta.cli.checks.migration import changes_of
from manta.install.kuberay import KubeRayOperator, of_deployment, of_lease
from manta.install.operator_manifests import Installation, all_objects
from manta.operator.dry_run import ApiPath, Step

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
    assert KubeRayOperator("", (), "").overlaps(["a"])
    assert KubeRayOperator("", ("a",), "").overlaps([])
    assert KubeRayOperator("", ("a", "b"), "").overlaps(["b"])
    assert not KubeRayOperator("", ("a",), "").overlaps(["b"])


def one(**spec: Any) -> dict[str, Any]:
    return {"kind": "RayCluster", "metadata": {"namespace": "ns", "name": "c"}, "spec": spec}


def test_a_fate_is_reported_in_words() -> None:
    assert changes_of(one(), []) == "none"
    reported = Step("status", "rayclusters", "ns", "c")
    assert changes_of(one(), [reported]) == "only its status"
    pod = Step("delete", "pods", "ns", "p", refused="no")
    assert changes_of(one(), [reported, pod]) == "delete pods/p, which the API server rejects: no"
    assert changes_of(one(managedBy="kueue.x-k8s.io/multikueue"), []).startswith("none")


def test_a_path_is_taken_apart() -> None:
    assert ApiPath.parse("/api/v1/namespaces/ns/pods/p") == ApiPath("pods", "ns", "p")
    assert ApiPath.parse("/apis/ray.io/v1/namespaces/ns/rayjobs/j/status") == ApiPath(
        "rayjobs", "ns", "j", "status"
    )
    proxy = "/api/v1/namespaces/ns/services/s:dashboard/proxy/api/jobs/"
    assert ApiPath.parse(proxy) == ApiPath("services", "ns", "s:dashboard", "proxy", "api/jobs")
    assert ApiPath.parse("/api/v1/namespaces/ns") == ApiPath("namespaces", "", "ns")


def test_our_own_deployment_is_not_taken_for_kuberays() -> None:
    """It carries KubeRay's labels, so that those who look for KubeRay find it (E9)."""
    documents = all_objects(Installation())
    [deployment] = [one for one in documents if one["kind"] == "Deployment"]
    assert of_deployment(deployment) is None
