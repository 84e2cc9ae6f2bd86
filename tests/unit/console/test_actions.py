"""Forms that change objects: who may, what is sent, and what a form of another page cannot do."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from html import unescape
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from manta.api.documents.reader import read_yaml as from_yaml
from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import NODES, SELF_SUBJECT_RULES_REVIEWS
from manta.api.usage import UsageError
from manta.api.well_known import ANNOTATION_LAST_APPLIED as LAST_APPLIED
from manta.console.action_executor import ActionExecutor
from manta.console.changes import Patch, change_of
from manta.console.pages.actions import BY_WORD, confirmation
from manta.console.pages.forecast import Forecast
from manta.console.rights import ask_rights, rights_of
from manta.httpserver.messages import HttpResponse, User
from manta.kube.client import Client
from manta.kube.errors import NotFound
from support.console import COMMANDS, RunningConsole, ray, ready_cluster, running_console, snapshot

DEMO = Key("default", "demo")
POD = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
SPEC: dict[str, Any] = {
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


def hidden_fields(page: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return {name: unescape(value) for name, value in found}


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


async def test_what_has_changed_since_it_was_shown_is_not_carried_out() -> None:
    path = "/rayjobs/default/train/retry"
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": {"entrypoint": "shown", "rayClusterSpec": SPEC}}  # fmt: skip
    async with running_console() as console:
        client = console.plane.client
        await client.create(RAY_JOBS, "default", job)
        status = {"status": {"jobDeploymentStatus": "Failed"}}
        await client.patch(RAY_JOBS, Key("default", "train"), status, subresource="status")
        while "Retry" not in (page := text(await console.get(path))):
            await asyncio.sleep(0.05)
        await client.patch(RAY_JOBS, Key("default", "train"), {"spec": {"entrypoint": "another"}})
        while "another" not in text(await console.get("/rayjobs/default/train")):
            await asyncio.sleep(0.05)
        answer = await console.post(path, urlencode(hidden_fields(page)).encode())
        assert (answer.status, "changed since; review it" in text(answer)) == (400, True)
        assert len((await client.list(RAY_JOBS, "default")).items) == 1

        reviewed = hidden_fields(text(await console.get(path)))
        assert (await console.post(path, urlencode(reviewed).encode())).status == 303
        made = await client.get(RAY_JOBS, Key("default", "train-retry-1"))
        assert made["spec"]["entrypoint"] == "another"


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
        form = {**fields_of(planned), "do": "apply"}
        applied = await console.post("/plan", urlencode(form).encode())
        assert dict(applied.headers)["Location"] == "/rayclusters/default/made?done=apply"
        await console.plane.client.get(RAY_CLUSTERS, Key("default", "made"))


async def test_only_the_text_whose_plan_was_seen_is_applied() -> None:
    async with running_console() as console:
        await created(console)
        client = console.plane.client
        wanted = to_yaml({**CLUSTER, "spec": {**SPEC, "rayVersion": "2.53.0"}})
        seen = fields_of(
            await console.post("/plan", urlencode({"yaml": wanted, "do": "plan"}).encode())
        )
        other = wanted.replace("2.53.0", "2.54.0")
        for form in ({**seen, "yaml": other}, {"yaml": wanted}):
            answer = await console.post("/plan", urlencode({**form, "do": "apply"}).encode())
            assert (answer.status, "not the one whose plan you saw" in text(answer)) == (200, True)
        body = {
            "spec": {"rayVersion": "2.55.0"}
        }  # what the diff showed is not what would be written now
        await client.patch(RAY_CLUSTERS, DEMO, body)
        answer = await console.post("/plan", urlencode({**seen, "do": "apply"}).encode())
        assert answer.status == 200
        assert (await client.get(RAY_CLUSTERS, DEMO))["spec"]["rayVersion"] == "2.55.0"


# ── an object that was opened to edit it ─────────────────────────────────────────────────


def fields_of(page: HttpResponse) -> dict[str, str]:
    """What the form of the page Plan holds."""
    area = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", text(page), re.DOTALL)
    assert area is not None
    return {**hidden_fields(text(page)), "yaml": unescape(area[1])}


async def opened(console: RunningConsole) -> dict[str, str]:
    await known(console)
    return fields_of(await console.get("/plan", "object=/rayclusters/default/demo"))


async def known(console: RunningConsole) -> None:
    while (await console.get("/rayclusters/default/demo")).status != 200:
        await asyncio.sleep(0.05)


async def sent(console: RunningConsole, form: dict[str, str], do: str) -> HttpResponse:
    return await console.post("/plan", urlencode({**form, "do": do}).encode())


async def test_an_edit_removes_and_changes_fields_that_others_wrote() -> None:
    """An apply would leave the group of another field manager, and refuse to change a number of it."""
    async with running_console() as console:
        client = console.plane.client
        groups = [*SPEC["workerGroupSpecs"], {**SPEC["workerGroupSpecs"][0], "groupName": "gone"}]
        made = {**CLUSTER, "spec": {**SPEC, "workerGroupSpecs": groups}}
        meta = {
            "name": "demo",
            "labels": {"team": "a"},
            "annotations": {LAST_APPLIED: "{}", "note": "x"},
        }
        await client.create(
            RAY_CLUSTERS, "default", {**made, "metadata": meta}, field_manager="of-ada"
        )
        form = await opened(console)
        wanted = from_yaml(form["yaml"])
        del (
            wanted["spec"]["workerGroupSpecs"][1],
            wanted["metadata"]["labels"],
            wanted["metadata"]["annotations"],
        )
        wanted["spec"]["workerGroupSpecs"][0]["replicas"] = 2
        planned = await sent(console, {**form, "yaml": to_yaml(wanted)}, "plan")
        assert "<del>-  - groupName: gone\n</del>" in text(planned)
        applied = await sent(console, fields_of(planned), "apply")
        assert dict(applied.headers)["Location"] == "/rayclusters/default/demo?done=apply"
        found = await client.get(RAY_CLUSTERS, DEMO)
        [group] = found["spec"]["workerGroupSpecs"]
        assert (group["groupName"], group["replicas"]) == ("w", 2)
        assert found["metadata"].get("labels") is None
        assert found["metadata"]["annotations"] == {LAST_APPLIED: "{}"}


async def test_an_edit_does_not_undo_what_somebody_else_has_changed_meanwhile() -> None:
    async with running_console() as console:
        await created(console)
        client = console.plane.client
        form = await opened(console)
        form["yaml"] = form["yaml"].replace("2.52.0", "2.53.0")
        planned = fields_of(await sent(console, form, "plan"))
        group = {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}
        await client.patch(RAY_CLUSTERS, DEMO, [group], kind="json")
        for do in ("plan", "apply"):
            answer = text(await sent(console, planned, do))
            assert "its spec was changed since you opened it" in answer
            assert "2.53.0" in answer  # the text is not lost
        await client.delete(RAY_CLUSTERS, DEMO)
        assert "it was deleted since you opened it" in text(await sent(console, planned, "apply"))
        await created(console)
        assert "it was re-created since you opened it" in text(
            await sent(console, planned, "apply")
        )
        assert (await client.get(RAY_CLUSTERS, DEMO))["spec"]["rayVersion"] == "2.52.0"


async def test_an_edit_leaves_the_metadata_that_others_write_meanwhile() -> None:
    """The operator writes annotations at any time: how far a rolling update is, how long a cluster was idle."""
    metadata = {"name": "demo", "labels": {"a/b": "1", "old": "x"}, "annotations": {"note": "1", "other": "1"}}  # fmt: skip
    meanwhile = {"annotations": {"note": "1", "other": "2", "new": "3"}, "labels": {"c": "4"}, "finalizers": ["theirs.example/x"]}  # fmt: skip
    async with running_console() as console:
        client = console.plane.client
        await client.create(RAY_CLUSTERS, "default", {**CLUSTER, "metadata": metadata})
        form = await opened(console)
        await client.patch(RAY_CLUSTERS, DEMO, {"metadata": meanwhile})
        wanted = from_yaml(form["yaml"])
        wanted["metadata"]["labels"] = {"a/b": "5"}
        wanted["metadata"]["annotations"]["note"] = "6"
        planned = await sent(console, {**form, "yaml": to_yaml(wanted)}, "plan")
        assert (await sent(console, fields_of(planned), "apply")).status == 303
        found = (await client.get(RAY_CLUSTERS, DEMO))["metadata"]
        assert found["labels"] == {"a/b": "5", "c": "4"}
        assert found["annotations"] == {"note": "6", "other": "2", "new": "3"}
        assert found["finalizers"] == ["theirs.example/x"]

        wanted["metadata"]["finalizers"] = ["ours.example/x"]
        answer = await sent(console, {**form, "yaml": to_yaml(wanted)}, "plan")
        assert "its finalizers were changed since you opened it" in text(answer)


async def test_a_text_with_another_name_is_a_new_object() -> None:
    async with running_console() as console:
        await created(console)
        form = await opened(console)
        form["yaml"] = form["yaml"].replace("name: demo", "name: copy")
        planned = await sent(console, form, "plan")
        applied = await sent(console, fields_of(planned), "apply")
        assert dict(applied.headers)["Location"] == "/rayclusters/default/copy?done=apply"


async def test_the_text_of_an_object_that_is_gone_cannot_be_edited() -> None:
    async with running_console() as console:
        answer = await console.get("/plan", "object=/rayclusters/default/gone")
        assert (answer.status, "<textarea" in text(answer)) == (404, False)


async def test_a_conflict_says_where_one_can_edit() -> None:
    async with running_console() as console:
        await console.plane.client.create(RAY_CLUSTERS, "default", CLUSTER, field_manager="of-ada")
        wanted = to_yaml({**CLUSTER, "spec": {**SPEC, "rayVersion": "2.53.0"}})
        answer = text(await sent(console, {"yaml": wanted}, "plan"))
        assert "press Edit on the page of the object" in answer
        assert "--force-conflicts" not in answer


async def test_if_the_second_object_fails_the_first_is_named() -> None:
    async def apply(_client: Any, document: Any) -> str:
        if document["metadata"]["name"] == "second":
            raise UsageError("no")
        return "created"

    both = "".join(
        f"---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {n}}}\n" for n in ("first", "second")
    )
    executor = ActionExecutor(replace(COMMANDS, apply=apply))
    with pytest.raises(UsageError, match=r"second: no \(written before it: Secret default/first\)"):
        await executor.apply_text(cast("Client", None), both)


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


async def test_a_form_with_a_mistake_is_shown_again_with_what_was_written() -> None:
    async with running_console() as console:
        await created(console)
        await known(console)
        page = text(await console.get("/rayclusters/default/demo/scale", "group=w&replicas=9"))
        assert "between 0 and 3" in page
        assert 'name="replicas" min="0" max="99999" value="9"' in page
        assert "Show what would happen" in page
        page = text(await console.get("/rayclusters/default/demo/scale", "group=w&replicas=2"))
        assert "Show what would happen" not in page


async def test_a_mistake_that_is_sent_leads_back_to_the_object() -> None:
    async with running_console() as console:
        form = urlencode({"uid": await created(console), "group": "w", "replicas": "9"}).encode()
        answer = await console.post("/rayclusters/default/demo/scale", form)
        assert answer.status == 400
        assert '<a href="/rayclusters/default/demo">Back to default/demo</a>' in text(answer)
        assert 'aria-current="page"' not in text(answer)
        assert '<a href="/events">Events</a>' in text(answer)  # the navigation


async def test_what_a_deletion_would_say_is_asked_first() -> None:
    async with running_console() as console:
        await created(console)
        forecast = ActionExecutor(COMMANDS).forecast
        shown = ready_cluster("demo")  # with another UID than the one that is there
        found = await forecast(console.plane.client, snapshot(), shown, BY_WORD["delete"], {})
        assert "re-created" in found.problems[0]
        await console.plane.client.get(RAY_CLUSTERS, DEMO)


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService", "RayCronJob"])
def test_each_kind_has_its_own_words_about_being_suspended(kind: str) -> None:
    for word in ("suspend", "resume"):
        page = confirmation(ray(kind, "x"), BY_WORD[word], Forecast(), {})
        assert ("chedule" in page.body()) == (kind == "RayCronJob")


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


class _Reviews:
    """An API server with an authorizer that knows no rules: it answers single questions only."""

    def __init__(self, *, incomplete: bool) -> None:
        self.incomplete = incomplete
        self.asked: list[Any] = []

    async def create(self, resource: Any, _namespace: str, body: Any, **_: Any) -> Any:
        if resource == SELF_SUBJECT_RULES_REVIEWS:
            return {"status": {"resourceRules": [], "incomplete": self.incomplete}}
        asked = body["spec"]["resourceAttributes"]
        self.asked.append(asked)
        wanted = ("patch", "rayclusters", "", "team-a"), ("get", "nodes", "proxy", "")
        found = tuple(asked[name] for name in ("verb", "resource", "subresource", "namespace"))
        return {"status": {"allowed": found in wanted}}


async def test_an_incomplete_review_is_completed_by_single_questions() -> None:
    rights = await ask_rights(cast("Client", _Reviews(incomplete=True)), "team-a")
    assert rights.allows("patch", RAY_CLUSTERS, "any")
    assert rights.allows("get", NODES, "n", "proxy")
    assert not rights.allows("delete", RAY_CLUSTERS, "any")
    assert not rights.allows("get", NODES, "n")
    complete = _Reviews(incomplete=False)
    assert not (await ask_rights(cast("Client", complete), "team-a")).rules
    assert complete.asked == []
