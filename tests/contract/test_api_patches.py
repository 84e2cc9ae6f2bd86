"""Patches: merge, JSON with the real server's leniency, strategic; versions as preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from support.contract import JSON_PATCH, STRATEGIC, Api, Widgets, config_map


@pytest.fixture
async def target(api: Api) -> str:
    await api.made(api.path("configmaps"), config_map("a", {"k": "1", "m": "2"}))
    return api.path("configmaps", "a")


async def test_a_merge_patch_changes_adds_and_removes(api: Api, target: str) -> None:
    answer = await api.patch(target, {"data": {"k": None, "m": "3", "n": "4"}})
    assert answer.status == 200
    assert answer.body["data"] == {"m": "3", "n": "4"}


async def test_a_json_patch_may_replace_what_is_absent(api: Api, target: str) -> None:
    patch = [{"op": "replace", "path": "/data/missing", "value": "x"}]
    answer = await api.patch(target, patch, JSON_PATCH)
    assert answer.status == 200
    assert answer.body["data"]["missing"] == "x"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/data/zzz"},
        {"op": "add", "path": "/nothing/here", "value": "x"},
        {"op": "test", "path": "/data/k", "value": "other"},
    ],
)
async def test_a_json_patch_that_does_not_apply_is_invalid(
    api: Api, target: str, operation: dict[str, Any]
) -> None:
    answer = await api.patch(target, [operation], JSON_PATCH)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message == "the server rejected our request due to an error in our request"


async def test_a_json_patch_must_be_a_list(api: Api, target: str) -> None:
    answer = await api.patch(target, {"op": "add"}, JSON_PATCH)
    assert answer.status == 400


async def test_a_json_patch_tests_the_version(api: Api, target: str) -> None:
    version = (await api.get(target)).version
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/data/k", "value": "9"},
    ]
    assert (await api.patch(target, patch, JSON_PATCH)).status == 200
    assert (await api.patch(target, patch, JSON_PATCH)).status == 422


async def test_a_version_in_a_patch_is_a_precondition(api: Api, target: str) -> None:
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"k": "9"}}
    answer = await api.patch(target, stale)
    assert (answer.status, answer.reason) == (409, "Conflict")
    fresh = {"metadata": {"resourceVersion": (await api.get(target)).version}}
    assert (await api.patch(target, fresh)).status == 200


async def test_patching_what_is_absent_is_not_found(api: Api) -> None:
    answer = await api.patch(api.path("configmaps", "nope"), {"data": {}})
    assert answer.status == 404


async def test_a_patch_cannot_rename(api: Api, target: str) -> None:
    answer = await api.patch(target, {"metadata": {"name": "b"}})
    assert answer.status == 400
    assert answer.message == "the name of the object (b) does not match the name on the URL (a)"


async def test_unknown_kinds_of_patches_are_refused(api: Api, target: str) -> None:
    answer = await api.patch(target, {}, "application/json")
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


async def test_custom_resources_have_no_strategic_patches(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    answer = await api.patch(widgets.path("a"), {"spec": {"mode": "b"}}, STRATEGIC)
    assert answer.status == 415
    assert answer.message.endswith(
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_a_strategic_patch_merges_containers_by_name(api: Api) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
        },
    }
    where = api.path("deployments", api="/apis/apps/v1")
    await api.made(where, deployment)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}}
    answer = await api.patch(f"{where}/d", patch, STRATEGIC)
    assert answer.status == 200, answer.text
    containers = answer.body["spec"]["template"]["spec"]["containers"]
    assert [(one["name"], one["image"]) for one in containers] == [("c", "i"), ("d", "j")]


async def test_a_patch_that_makes_the_object_invalid_changes_nothing(
    api: Api, widgets: Widgets
) -> None:
    made = await widgets.made("a")
    answer = await api.patch(widgets.path("a"), {"spec": {"replicas": 99}})
    assert answer.status == 422
    assert (await api.get(widgets.path("a"))).version == made["metadata"]["resourceVersion"]
