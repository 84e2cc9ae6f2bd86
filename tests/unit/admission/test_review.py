"""AdmissionReviews judged: the rules are the controllers', and so are the words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manta.admission.review import RULES, InvalidReview, review
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.ray.service import RayService
from manta.rules.settings import FeatureGates, Settings
from manta.rules.validation.cluster import cluster_violations
from manta.rules.validation.service import service_violations
from manta.rules.validation.violation import violations_message
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import decode
from support.raycronjob import ray_cron_job
from support.rayjob import ray_job
from support.rayservice_objects import ray_service

Json = dict[str, Any]


def asked(
    new: Json, old: Json | None = None, settings: Settings | None = None, **request: Any
) -> Json:
    """The response to a review of this object."""
    body = {
        "uid": "u-1",
        "kind": {"group": "ray.io", "version": "v1", "kind": new["kind"]},
        "operation": "UPDATE" if old else "CREATE",
        "object": new,
        "oldObject": old,
        **request,
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body}
    answer = json.loads(review(json.dumps(document).encode(), settings or Settings()))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u-1"
    found: Json = answer["response"]
    return found


def twins(**more: Any) -> Json:
    """Two groups of one name."""
    return ray_cluster(groups=[group("a"), group("a")], **more)


def test_all_kinds_are_judged() -> None:
    assert set(RULES) == {one.kind for one in RAY_RESOURCES}


@pytest.mark.parametrize("valid", [ray_cluster(), ray_job(), ray_service(), ray_cron_job()])
def test_what_is_valid_may_pass(valid: Json) -> None:
    assert asked(valid) == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize(
    ("invalid", "word"),
    [
        (twins(), "spec.workerGroupSpecs"),
        (ray_cluster("UPPER"), "metadata.name"),
        (ray_job(backoffLimit=-1), "spec.backoffLimit"),
        (ray_job(runtimeEnvYAML="["), "spec.runtimeEnvYAML"),
        (ray_job(rayClusterSpec=twins()["spec"]), "spec.rayClusterSpec.workerGroupSpecs"),
        (ray_service(serveConfigV2="["), "spec.serveConfigV2"),
        (ray_service(rayClusterConfig=twins()["spec"]), "spec.rayClusterConfig.workerGroupSpecs"),
        (ray_cron_job(schedule="never"), "spec.schedule"),
    ],
)
def test_what_is_invalid_is_refused_by_name(invalid: Json, word: str) -> None:
    response = asked(invalid)
    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    assert word in response["status"]["message"]


def test_the_words_are_the_controllers() -> None:
    reported = asked(twins())["status"]["message"]
    assert reported == violations_message(cluster_violations(decode(twins()), Settings()))
    service = ray_service(serveConfigV2="[")
    import msgspec

    view = msgspec.convert(service, RayService)
    assert asked(service)["status"]["message"] == violations_message(
        service_violations(view, Settings())
    )


def test_a_gate_that_is_on_for_the_operator_is_on_here() -> None:
    policy = ray_cluster(networkPolicy={"mode": "DenyAll"})
    assert asked(policy)["allowed"] is False
    gates = FeatureGates(ray_cluster_network_policy=True)
    assert asked(policy, settings=Settings(gates=gates))["allowed"] is True


def test_an_update_is_refused_only_for_what_it_makes_worse() -> None:
    labelled = twins(labels={"a": "b"})
    assert asked(labelled, old=twins())["allowed"] is True
    worse = twins(authOptions={"mode": "token"}, rayVersion="2.1.0")
    reported = asked(worse, old=twins())
    assert reported["allowed"] is False
    assert "2.52.0" in reported["status"]["message"]
    assert "workerGroupSpecs" not in reported["status"]["message"]
    assert asked(twins(), old=ray_cluster())["allowed"] is False


def test_what_is_being_deleted_may_go() -> None:
    going = twins()
    going["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
    assert asked(going, old=ray_cluster())["allowed"] is True


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_other_operations_are_nobodys_business(operation: str) -> None:
    assert asked(twins(), operation=operation)["allowed"] is True


def test_other_kinds_are_let_through() -> None:
    assert asked({"kind": "Pod", "metadata": {"name": "p"}})["allowed"] is True


def test_an_object_that_we_cannot_read_is_refused_with_the_reason() -> None:
    reported = asked(ray_cluster() | {"spec": {"headGroupSpec": 7}})
    assert reported["allowed"] is False
    assert "cannot be read" in reported["status"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
    ],
)
def test_what_is_no_review_is_said_so(body: bytes) -> None:
    with pytest.raises(InvalidReview):
        review(body, Settings())


@pytest.mark.parametrize(
    "text",
    ["z: !!timestamp 2020-99-99x", "z: !!int " + "1" * 5000, "a: " + "[" * 40_000, "z: .inf"],
)
def test_a_runtime_env_that_cannot_be_read_is_refused(text: str) -> None:
    """X14: it raised, and under `failurePolicy: Ignore` the object passed."""
    reported = asked(ray_job(runtimeEnvYAML=text))
    assert not reported["allowed"]
    assert "spec.runtimeEnvYAML" in reported["status"]["message"]


def test_an_object_nested_too_deep_is_refused() -> None:
    """X14."""
    deep: Json = {}
    for _ in range(900):
        deep = {"a": deep}
    reported = asked(
        ray_job() | {"spec": {"rayClusterSpec": {"headGroupSpec": {"template": deep}}}}
    )
    assert "nested more than 100 levels deep" in reported["status"]["message"]
