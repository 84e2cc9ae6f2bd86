"""Forms that change objects: who may, what is sent, and what a form of another page cannot do."""

from __future__ import annotations

import asyncio
from typing import cast
from urllib.parse import urlencode

import pytest

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.usage import UsageError
from manta.console.changes import Patch, change_of
from manta.console.pages.actions import BY_WORD
from manta.console.rights import rights_of
from manta.httpserver.messages import HttpResponse, User
from manta.kube.errors import NotFound
from support.console import RunningConsole, ray, ready_cluster, running_console, snapshot

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


async def test_a_retry_that_is_sent_twice_makes_one_job() -> None:
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": {"entrypoint": "x", "rayClusterSpec": SPEC}}  # fmt: skip
    async with running_console() as console:
        client = console.plane.client
        uid = (await client.create(RAY_JOBS, "default", job)).metadata.uid
        status = {"status": {"jobDeploymentStatus": "Failed"}}
        await client.patch(RAY_JOBS, Key("default", "train"), status, subresource="status")
        while "Retry" not in (page := text(await console.get("/rayjobs/default/train/retry"))):
            await asyncio.sleep(0.05)
        assert "The new job is called train-retry-1." in page
        form = urlencode({"uid": uid, "name": "train-retry-1"}).encode()
        first = await console.post("/rayjobs/default/train/retry", form)
        assert dict(first.headers)["Location"] == "/rayjobs/default/train-retry-1?done=retry"
        again = await console.post("/rayjobs/default/train/retry", form)
        assert (again.status, "exists already" in text(again)) == (400, True)
        names = [one["metadata"]["name"] for one in (await client.list(RAY_JOBS, "default")).items]
        assert sorted(names) == ["train", "train-retry-1"]


async def test_the_page_plan_shows_what_would_be_written() -> None:
    async with running_console() as console:
        await created(console)
        smaller = to_yaml({**CLUSTER, "spec": {**SPEC, "rayVersion": "2.53.0"}})
        page = text(
            await console.post("/plan", urlencode({"yaml": smaller, "do": "plan"}).encode())
        )
        assert "<ins>+  rayVersion: &quot;2.53.0&quot;\n</ins>" in page
        assert 'value="apply"' in page


async def test_what_the_server_would_refuse_cannot_be_applied() -> None:
    viewer = User("vera", ("system:authenticated",))
    async with running_console(user=viewer) as console:
        wanted = to_yaml({**CLUSTER, "spec": SPEC})
        answer = await console.post("/plan", urlencode({"yaml": wanted, "do": "apply"}).encode())
        assert "cannot" in text(answer)
        assert 'value="apply"' not in text(answer)


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
        change_of("scale", ready_cluster("demo"), snapshot(), fields)


def test_a_patch_is_for_this_very_object() -> None:
    change = change_of("suspend", ready_cluster("demo"), snapshot(), {})
    assert isinstance(change, Patch)
    assert change.operations[0] == {
        "op": "test",
        "path": "/metadata/uid",
        "value": "uid-RayCluster-demo",
    }


def test_a_finished_job_cannot_be_suspended_or_stopped() -> None:
    done = ray("RayJob", "x", {"jobDeploymentStatus": "Complete"})
    assert [word for word, one in BY_WORD.items() if one.offered(done)] == ["retry", "delete"]


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
