"""Subresources: binding, eviction, status of Pods, tokens, Events of both groups, reviews."""

from __future__ import annotations

from typing import Any

from support.contract import STRATEGIC, Api, pod


def binding(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }


async def bound(api: Api, name: str) -> None:
    await api.made(api.path("pods"), pod(name, schedulerName="nobody"))
    answer = await api.create(api.path("pods", name, "binding"), binding(name, "n1"))
    assert answer.status == 201, answer.text


async def forget(api: Api, name: str) -> None:
    await api.delete(api.path("pods", name), {"gracePeriodSeconds": 0})


async def test_a_pod_is_bound_once(api: Api) -> None:
    await bound(api, "p")
    seen = (await api.get(api.path("pods", "p"))).body
    assert seen["spec"]["nodeName"] == "n1"
    assert seen["metadata"]["generation"] == 1
    conditions = {one["type"]: one["status"] for one in seen["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"
    again = await api.create(api.path("pods", "p", "binding"), binding("p", "n2"))
    assert (again.status, again.reason) == (409, "Conflict")
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    await forget(api, "p")


async def test_the_status_of_a_pod_is_written_apart(api: Api) -> None:
    await bound(api, "p")
    running = {"status": {"phase": "Running", "podIP": "1.2.3.4"}}
    assert (await api.patch(api.path("pods", "p", "status"), running)).status == 200
    ignored = await api.patch(api.path("pods", "p"), {"status": {"phase": "Failed"}})
    assert ignored.body["status"]["phase"] == "Running"
    await forget(api, "p")


async def test_an_eviction_deletes_the_pod(api: Api) -> None:
    await api.made(api.path("pods"), pod("p", schedulerName="nobody"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    answer = await api.create(api.path("pods", "p", "eviction"), body)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    assert (await api.get(api.path("pods", "p"))).status == 404


async def test_events_of_both_groups_are_one(api: Api) -> None:
    new = "/apis/events.k8s.io/v1"
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e1"},
        "eventTime": "2026-11-15T08:00:00.000000Z",
        "reportingController": "contract",
        "reportingInstance": "c1",
        "action": "Do",
        "reason": "Done",
        "type": "Normal",
        "note": "it is done",
        "regarding": {"kind": "Pod", "namespace": api.namespace, "name": "p", "uid": "u1"},
    }
    await api.made(api.path("events", api=new), event)
    old = (await api.get(api.path("events", "e1"))).body
    assert (old["message"], old["involvedObject"]["name"]) == ("it is done", "p")
    assert old["reportingComponent"] == "contract"
    query = {"fieldSelector": "involvedObject.name=p,involvedObject.uid=u1"}
    assert len((await api.get(api.path("events"), query=query)).body["items"]) == 1
    query = {"fieldSelector": "regarding.name=p"}
    assert len((await api.get(api.path("events", api=new), query=query)).body["items"]) == 1
    series = {"series": {"count": 2, "lastObservedTime": "2026-11-15T08:01:00.000000Z"}}
    patched = await api.patch(api.path("events", "e1", api=new), series, STRATEGIC)
    assert patched.status == 200, patched.text
    assert patched.body["note"] == "it is done"
    assert (await api.get(api.path("events", "e1"))).body["series"]["count"] == 2


async def test_an_old_event_is_shown_in_the_new_form(api: Api) -> None:
    event = {
        "metadata": {"name": "e2"},
        "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "p"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    await api.made(api.path("events"), event)
    shown = (await api.get(api.path("events", "e2", api="/apis/events.k8s.io/v1"))).body
    assert (shown["note"], shown["deprecatedCount"]) == ("m", 1)
    assert shown["regarding"]["name"] == "p"
    assert shown["deprecatedFirstTimestamp"] == "2026-01-01T00:00:00Z"


async def test_reviews_answer_who_one_is_and_what_one_may(api: Api) -> None:
    who = await api.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    assert who.status == 201
    assert "system:masters" in who.body["status"]["userInfo"]["groups"]
    may = await api.create(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        },
    )
    assert (may.status, may.body["status"]["allowed"]) == (201, True)
    other = await api.create(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}},
        },
    )
    assert other.body["status"]["allowed"] is False
