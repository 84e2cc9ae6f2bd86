"""Deletion: finalizers, preconditions, propagation, grace, collections, namespaces."""

from __future__ import annotations

import pytest

from support.contract import Api, config_map, pod

FINALIZER = "ex.com/f"


async def test_deleting_answers_what_was_deleted(api: Api) -> None:
    made = await api.made(api.path("configmaps"), config_map("a"))
    answer = await api.delete(api.path("configmaps", "a"))
    assert answer.status == 200
    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }
    assert (await api.get(api.path("configmaps", "a"))).status == 404


async def test_finalizers_keep_an_object_until_they_go(api: Api) -> None:
    where = api.path("configmaps", "fin")
    await api.made(api.path("configmaps"), config_map("fin", finalizers=[FINALIZER]))
    deleted = (await api.delete(where)).body
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    stamp = deleted["metadata"]["deletionTimestamp"]
    again = (await api.delete(where)).body
    assert again["metadata"]["deletionTimestamp"] == stamp
    assert again["metadata"]["resourceVersion"] == deleted["metadata"]["resourceVersion"]
    last = await api.patch(where, {"metadata": {"finalizers": None}})
    assert last.status == 200
    assert last.body["metadata"]["deletionTimestamp"] == stamp
    assert (await api.get(where)).status == 404


async def test_a_dying_object_takes_no_new_finalizers(api: Api) -> None:
    where = api.path("configmaps", "fin")
    await api.made(api.path("configmaps"), config_map("fin", finalizers=[FINALIZER]))
    await api.delete(where)
    answer = await api.patch(where, {"metadata": {"finalizers": [FINALIZER, "ex.com/g"]}})
    assert answer.status == 422
    assert set(answer.causes) == {("metadata.finalizers", "FieldValueForbidden")}
    assert answer.message.endswith('found new finalizers []string{"ex.com/g"}')
    await api.patch(where, {"metadata": {"finalizers": None}})


async def test_finalizers_must_be_qualified(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), config_map("a", finalizers=["bad"]))
    assert answer.causes == [("metadata.finalizers[0]", "FieldValueInvalid")]


async def test_preconditions_protect_from_deleting_another(api: Api) -> None:
    where = api.path("configmaps", "a")
    made = await api.made(api.path("configmaps"), config_map("a"))
    wrong = await api.delete(where, {"preconditions": {"uid": "x"}})
    assert (wrong.status, wrong.reason) == (409, "Conflict")
    assert "The object might have been deleted and then recreated" in wrong.message
    stale = await api.delete(where, {"preconditions": {"resourceVersion": "1"}})
    assert stale.status == 409
    right = {"preconditions": {"uid": made["metadata"]["uid"]}}
    assert (await api.delete(where, right)).status == 200


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_policies_become_finalizers(api: Api, policy: str, finalizer: str) -> None:
    where = api.path("configmaps", "a")
    await api.made(api.path("configmaps"), config_map("a", finalizers=[FINALIZER]))
    answer = await api.delete(where, {"propagationPolicy": policy})
    assert finalizer in answer.body["metadata"]["finalizers"]
    await api.patch(where, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": "Nope"},
        {"propagationPolicy": "Background", "orphanDependents": True},
    ],
)
async def test_policies_are_checked(api: Api, options: dict[str, object]) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    answer = await api.delete(api.path("configmaps", "a"), options)
    assert answer.status == 422
    assert answer.body["details"]["kind"] == "DeleteOptions"
    assert (await api.get(api.path("configmaps", "a"))).status == 200


async def test_deleting_what_is_absent_is_not_found(api: Api) -> None:
    assert (await api.delete(api.path("configmaps", "zz"))).status == 404


async def test_a_dry_deletion_deletes_nothing(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    answer = await api.delete(api.path("configmaps", "a"), query={"dryRun": "All"})
    assert answer.body["status"] == "Success"
    assert (await api.get(api.path("configmaps", "a"))).status == 200


async def test_a_selected_collection_goes_at_once(api: Api) -> None:
    for name in ("dc0", "dc1"):
        await api.made(api.path("configmaps"), config_map(name, labels={"dc": "1"}))
    await api.made(api.path("configmaps"), config_map("other"))
    answer = await api.delete(api.path("configmaps"), query={"labelSelector": "dc=1"})
    assert answer.status == 200
    assert answer.body["kind"] == "ConfigMapList"
    assert [one["metadata"]["name"] for one in answer.body["items"]] == ["dc0", "dc1"]
    assert (await api.get(api.path("configmaps", "dc0"))).status == 404
    assert (await api.get(api.path("configmaps", "other"))).status == 200


async def test_an_unscheduled_pod_goes_at_once(api: Api) -> None:
    await api.made(api.path("pods"), pod("p", schedulerName="nobody"))
    answer = await api.delete(api.path("pods", "p"))
    assert answer.body["kind"] == "Pod"
    assert (await api.get(api.path("pods", "p"))).status == 404


async def test_a_pod_on_a_node_gets_time_to_end(api: Api) -> None:
    where = api.path("pods", "p")
    made = await api.made(api.path("pods"), pod("p", nodeName="contract-node"))
    deleted = (await api.delete(where)).body["metadata"]
    assert deleted["deletionGracePeriodSeconds"] == 30
    assert deleted["deletionTimestamp"] > made["metadata"]["creationTimestamp"]
    assert deleted["generation"] == 2
    longer = (await api.delete(where, {"gracePeriodSeconds": 60})).body["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 30
    assert (await api.delete(where, {"gracePeriodSeconds": 0})).status == 200
    assert (await api.get(where)).status == 404


async def test_a_job_leaves_its_pods_behind_by_default(api: Api) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "finalizers": [FINALIZER]},
        "spec": {"template": template, "suspend": True},
    }
    where = api.path("jobs", api="/apis/batch/v1")
    await api.made(where, job)
    answer = await api.delete(f"{where}/j")
    assert "child pods are preserved by default" in answer.headers["warning"]
    assert "orphan" in answer.body["metadata"]["finalizers"]
    await api.patch(f"{where}/j", {"metadata": {"finalizers": None}})


async def test_a_terminating_namespace_takes_nothing_new(api: Api) -> None:
    body = {"metadata": {"generateName": "contract-dying-"}}
    name = (await api.made("/api/v1/namespaces", body))["metadata"]["name"]
    where = f"/api/v1/namespaces/{name}"
    keeper = config_map("keep", finalizers=[FINALIZER])
    await api.made(f"{where}/configmaps", keeper)
    dying = (await api.delete(where)).body
    assert dying["status"]["phase"] == "Terminating"
    assert "deletionTimestamp" in dying["metadata"]
    answer = await api.create(f"{where}/configmaps", config_map("x"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.causes == [("metadata.namespace", "NamespaceTerminating")]
    await api.patch(f"{where}/configmaps/keep", {"metadata": {"finalizers": None}})
    if api.embedded:
        finalized = await api.replace(f"{where}/finalize", dying | {"spec": {}})
        assert finalized.status == 200
    await api.until_gone(where)
