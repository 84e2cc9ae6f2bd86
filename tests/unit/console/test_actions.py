"""Forms that change objects: who may, what is sent, and what a form of another page cannot do."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlencode

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.console.pages.actions import BY_WORD, operations
from manta.console.rights import rights_of
from manta.httpserver.messages import HttpResponse
from manta.kube.errors import NotFound
from support.console import RunningConsole, ray, ready_cluster, running_console

DEMO = Key("default", "demo")
POD = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
SPEC = {
    "rayVersion": "2.52.0",
    "headGroupSpec": {"rayStartParams": {}, "template": POD},
    "workerGroupSpecs": [
        {"groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 3, "rayStartParams": {}, "template": POD}
    ],
}  # fmt: skip
CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "demo"},
    "spec": SPEC,
}


def text(answer: HttpResponse) -> str:
    return cast("bytes", answer.body).decode()


async def created(console: RunningConsole) -> str:
    made = await console.plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
    return str(made.metadata.uid)


async def test_confirmed_actions_change_the_object_and_a_get_changes_nothing() -> None:
    async with running_console() as console:
        uid, client = await created(console), console.plane.client
        page = await console.get("/rayclusters/default/demo/suspend")
        assert "planned" in text(page)
        assert "suspend" not in (await client.get(RAY_CLUSTERS, DEMO))["spec"]

        form = urlencode({"uid": uid}).encode()
        assert (await console.post("/rayclusters/default/demo/suspend", form)).status == 303
        assert (await client.get(RAY_CLUSTERS, DEMO))["spec"]["suspend"] is True

        scaled = urlencode({"uid": uid, "group": "w", "replicas": "3"}).encode()
        assert (await console.post("/rayclusters/default/demo/scale", scaled)).status == 303
        [group] = (await client.get(RAY_CLUSTERS, DEMO))["spec"]["workerGroupSpecs"]
        assert group["replicas"] == 3

        other = urlencode({"uid": "of-another-object"}).encode()
        assert (await console.post("/rayclusters/default/demo/delete", other)).status == 400
        await client.get(RAY_CLUSTERS, DEMO)
        assert (await console.post("/rayclusters/default/demo/delete", form)).status == 303
        with pytest.raises(NotFound):
            await client.get(RAY_CLUSTERS, DEMO)


async def test_an_action_of_another_site_changes_nothing() -> None:
    async with running_console() as console:
        uid = await created(console)
        form = urlencode({"uid": uid}).encode()
        path = "/rayclusters/default/demo/delete"
        assert (await console.post(path, form, sec_fetch_site="cross-site")).status == 403
        await console.plane.client.get(RAY_CLUSTERS, DEMO)


async def test_a_text_is_planned_first_and_then_applied() -> None:
    async with running_console() as console:
        yaml = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: made}\nspec: {headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: a, image: b}]}}}}\n"
        planned = await console.post("/plan", urlencode({"yaml": yaml, "do": "plan"}).encode())
        assert "RayCluster default/made: planned" in text(planned)
        with pytest.raises(NotFound):
            await console.plane.client.get(RAY_CLUSTERS, Key("default", "made"))
        applied = await console.post("/plan", urlencode({"yaml": yaml, "do": "apply"}).encode())
        assert applied.status == 303
        await console.plane.client.get(RAY_CLUSTERS, Key("default", "made"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"group": "x", "replicas": "1"}, "the cluster has small"),
        ({"group": "small", "replicas": "-1"}, "write a number"),
        ({"group": "small", "replicas": "9"}, "between 0 and 5"),
    ],
)
def test_a_wrong_number_of_workers_is_explained(fields: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        operations(ready_cluster("demo"), BY_WORD["scale"], fields)


def test_a_patch_is_for_this_very_object() -> None:
    first, *_ = operations(ready_cluster("demo"), BY_WORD["suspend"], {})
    assert first == {"op": "test", "path": "/metadata/uid", "value": "uid-RayCluster-demo"}


def test_a_finished_job_cannot_be_suspended_or_stopped() -> None:
    done = ray("RayJob", "x", {"jobDeploymentStatus": "Complete"})
    assert [word for word, one in BY_WORD.items() if one.offered(done)] == ["delete"]


def test_rights_follow_verbs_groups_resources_and_names() -> None:
    rule = {
        "verbs": ["patch"],
        "apiGroups": ["ray.io"],
        "resources": ["rayclusters"],
        "resourceNames": ["a"],
    }
    rights = rights_of({"status": {"resourceRules": [rule]}})
    assert rights.allows("patch", RAY_CLUSTERS, "a")
    assert not rights.allows("patch", RAY_CLUSTERS, "b")
    assert not rights.allows("delete", RAY_CLUSTERS, "a")
    everything = rights_of(
        {"status": {"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}}
    )
    assert everything.allows("delete", RAY_CLUSTERS, "b")
