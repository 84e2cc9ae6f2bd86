"""M8 to M12: watches, streaming lists, expired revisions, lists and selectors, word for word."""

from __future__ import annotations

import pytest

from support.contract import PARTIAL, TABLE, Api, Widgets, config_map, pod
from support.recording import Recording

LABELLED = {"labels": {"x": "1"}}
STREAMING = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


async def changed(api: Api, widgets: Widgets) -> None:
    await widgets.made("wa")
    await api.patch(widgets.path("wa"), {"metadata": {"labels": {"x": "1"}}})
    await api.patch(widgets.path("wa"), {"metadata": {"labels": {"x": "2"}}})
    await api.delete(widgets.path("wa"))


# ── M8: watches ──────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "accept", ["application/json", TABLE, PARTIAL], ids=["plain", "table", "partial"]
)
async def test_m08_the_life_of_an_object(
    recording: Recording, recorded_widgets: Widgets, accept: str
) -> None:
    start = (await recording.get(recorded_widgets.path())).version
    await changed(recording, recorded_widgets)
    accept = accept.replace("PartialObjectMetadataList", "PartialObjectMetadata")
    query = {"resourceVersion": start}
    async with recording.watch(recorded_widgets.path(), query, accept) as events:
        for _ in range(4):
            await events.next()


async def test_m08_selections_are_entered_and_left(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    start = (await recording.get(recorded_widgets.path())).version
    await changed(recording, recorded_widgets)
    query = {"resourceVersion": start, "labelSelector": "x=1"}
    async with recording.watch(recorded_widgets.path(), query) as events:
        for _ in range(2):
            await events.next()
    query = {"resourceVersion": start, "labelSelector": "x!=1"}
    async with recording.watch(recorded_widgets.path(), query) as events:
        for _ in range(4):
            await events.next()
    query = {"resourceVersion": start, "labelSelector": "x=2", "fieldSelector": "metadata.name=wa"}
    async with recording.watch(recorded_widgets.path(), query) as events:
        for _ in range(2):
            await events.next()


async def test_m08_pods_enter_and_leave_by_field(recording: Recording) -> None:
    start = (await recording.get(recording.path("pods"))).version
    await recording.made(recording.path("pods"), pod("p", nodeName="elsewhere"))
    await recording.patch(recording.path("pods", "p", "status"), {"status": {"phase": "Running"}})
    await recording.patch(recording.path("pods", "p", "status"), {"status": {"phase": "Failed"}})
    await recording.delete(recording.path("pods", "p"), query={"gracePeriodSeconds": "0"})
    query = {"resourceVersion": start, "fieldSelector": "status.phase=Running"}
    async with recording.watch(recording.path("pods"), query) as events:
        for _ in range(2):
            await events.next()


async def test_m08_the_state_comes_first_without_a_revision(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    await recorded_widgets.made("a")
    await recorded_widgets.made("b", mode="b")
    for query in ({}, {"resourceVersion": "0"}, {"resourceVersion": "0", "timeoutSeconds": "5"}):
        async with recording.watch(recorded_widgets.path(), query) as events:
            for _ in range(2):
                await events.next()
    async with recording.watch(recorded_widgets.path(), {"fieldSelector": "spec.mode=b"}) as events:
        await events.next()


async def test_m08_watches_are_refused(recording: Recording) -> None:
    where = recording.path("configmaps")
    for query in (
        {"resourceVersion": "abc"},
        {"resourceVersion": "-1"},
        {"labelSelector": "a in"},
        {"fieldSelector": "spec.x=1"},
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
        {
            "sendInitialEvents": "false",
            "resourceVersionMatch": "NotOlderThan",
            "resourceVersion": "x",
        },
    ):
        await recording.get(where, query={"watch": "1", **query})
    await recording.get(recording.path("nothings"), query={"watch": "1"})


# ── M9: streaming lists ──────────────────────────────────────────────────────────────────
async def test_m09_a_streaming_list_and_its_end(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    await recorded_widgets.made("a")
    await recorded_widgets.made("s")
    for more in ({}, {"resourceVersion": "0"}):
        async with recording.watch(recorded_widgets.path(), {**STREAMING, **more}) as events:
            for _ in range(3):
                await events.next()
    async with recording.watch(recorded_widgets.path(), STREAMING, TABLE) as events:
        for _ in range(3):
            await events.next()
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with recording.watch(recorded_widgets.path(), STREAMING, partial) as events:
        for _ in range(3):
            await events.next()


async def test_m09_a_streaming_list_of_a_built_in_kind(recording: Recording) -> None:
    async with recording.watch(recording.path("pods"), STREAMING) as events:
        await events.next()
    await recording.made(recording.path("secrets"), {"metadata": {"name": "a", **LABELLED}})
    async with recording.watch(recording.path("secrets"), STREAMING) as events:
        for _ in range(2):
            await events.next()
    async with recording.watch(
        recording.path("secrets"), {**STREAMING, "labelSelector": "x=2"}
    ) as events:
        await events.next()


# ── M10: expired revisions ───────────────────────────────────────────────────────────────
@pytest.mark.embedded_only
async def test_m10_a_forgotten_revision_is_expired(api: Api) -> None:
    """The real server forgets after five minutes; ours does so on request."""
    from manta.localplane.inprocess import InProcessTransport

    made = await api.made(api.path("configmaps"), config_map("a"))
    since = made["metadata"]["resourceVersion"]
    await api.patch(api.path("configmaps", "a"), {"data": {"k": "2"}})
    last = (await api.patch(api.path("configmaps", "a"), {"data": {"k": "3"}})).version
    assert isinstance(api.transport, InProcessTransport)
    resource = api.transport._app.store.resource("configmaps")
    assert len(resource) > 0
    resource.compact(int(last))
    async with api.watch(api.path("configmaps"), {"resourceVersion": since}) as events:
        assert events.status == 200
        event = await events.next()
    assert event["type"] == "ERROR"
    assert event["object"] == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"too old resource version: {since} ({last})",
        "reason": "Expired",
        "code": 410,
    }


# ── M11: lists ───────────────────────────────────────────────────────────────────────────
async def test_m11_pages_and_revisions(recording: Recording) -> None:
    where = recording.path("secrets")
    for index in range(5):
        await recording.made(where, {"metadata": {"name": f"l{index}"}})
    first = await recording.get(where, query={"limit": "2"})
    token = first.body["metadata"]["continue"]
    recording.call(token, "<token>")
    await recording.delete(recording.path("secrets", "l3"))
    second = await recording.get(where, query={"limit": "2", "continue": token})
    assert [one["metadata"]["name"] for one in second.body["items"]] == ["l2", "l3"]
    assert second.version == first.version
    recording.call(second.body["metadata"]["continue"], "<token>")
    await recording.get(
        where, query={"limit": "2", "continue": second.body["metadata"]["continue"]}
    )
    await recording.get(where, query={"limit": "10"})
    await recording.get(where, query={"limit": "2", "labelSelector": "!a"})
    await recording.get(where, query={"limit": "2", "resourceVersion": "0"})
    await recording.get(where, query={"limit": "2", "continue": "garbage"})
    await recording.get(where, query={"limit": "2", "continue": token, "resourceVersion": "5"})
    await recording.get(where, query={"limit": "x"})
    await recording.get(where, query={"limit": "-1"})


async def test_m11_revisions_are_matched_or_refused(recording: Recording) -> None:
    where = recording.path("secrets")
    made = await recording.made(where, {"metadata": {"name": "a"}})
    await recording.made(where, {"metadata": {"name": "b"}})
    then = made["metadata"]["resourceVersion"]
    recording.call(f"resourceVersion={then}", "resourceVersion=<then>")
    for query in (
        {"resourceVersion": then, "resourceVersionMatch": "Exact"},
        {"resourceVersion": then, "resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": then},
        {"resourceVersion": then, "limit": "1"},
        {"resourceVersion": "0"},
        {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "1", "resourceVersionMatch": "Nonsense"},
        {"resourceVersion": "abc"},
        {"resourceVersion": "99999999", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "99999999", "resourceVersionMatch": "NotOlderThan"},
        {"sendInitialEvents": "true"},
    ):
        await recording.get(where, query=query)
    await recording.get(recording.path("secrets", "a"), query={"resourceVersion": "0"})
    await recording.get(recording.path("secrets", "a"), query={"resourceVersion": "abc"})
    await recording.get(recording.path("secrets", "a"), query={"resourceVersion": "99999999"})


# ── M12: selectors ───────────────────────────────────────────────────────────────────────
SELECTORS = [
    "l in (1,2)",
    "l notin (1),l",
    "!l",
    "l!=1",
    "l==1",
    "l=1,!x",
    "l>2",
    "l<2",
    "l==",
    "l",
    "l in (1),m",
    "",
    " l = 1 ",
    "l in ()",
    "a in",
    "l in (1",
    "=1",
    "l=1,",
    "l=!",
    "a b",
    "l>x",
    "-x=1",
    "l=" + "x" * 64,
    "example.com/l=1",
    "l in (1, 2 ,3)",
    "l===1",
]


async def test_m12_label_selectors(recording: Recording) -> None:
    where = recording.path("secrets")
    for index in range(4):
        meta = {"name": f"l{index}", "labels": {"l": str(index)} if index else {}}
        await recording.made(where, {"metadata": meta})
    for selector in SELECTORS:
        answer = await recording.get(where, query={"labelSelector": selector})
        if answer.status == 200:
            names = [one["metadata"]["name"] for one in answer.body["items"]]
            recording.retell(names)


async def test_m12_field_selectors(recording: Recording, recorded_widgets: Widgets) -> None:
    await recording.made(recording.path("pods"), pod("p1", nodeName="n1"))
    await recording.made(recording.path("pods"), pod("p2", restartPolicy="Never"))
    await recorded_widgets.made("a")
    await recorded_widgets.made("b", mode="b")
    for where, selector in (
        ("pods", "metadata.name=p1"),
        ("pods", "metadata.name!=p1"),
        ("pods", f"metadata.namespace={recording.namespace}"),
        ("pods", "metadata.namespace=elsewhere"),
        ("pods", "spec.nodeName=n1"),
        ("pods", "spec.nodeName="),
        ("pods", "spec.nodeName!=n1,status.phase=Pending"),
        ("pods", "spec.restartPolicy==Never"),
        ("pods", "spec.schedulerName=default-scheduler"),
        ("pods", "spec.serviceAccountName=default"),
        ("pods", "spec.hostNetwork=false"),
        ("pods", "status.podIP="),
        ("pods", "status.nominatedNodeName="),
        ("pods", "spec.foo=1"),
        ("pods", "metadata.labels=1"),
        ("pods", "nonsense"),
        ("pods", "a=b=c"),
        ("configmaps", "data.k=1"),
        ("secrets", "type=Opaque"),
        ("services", "spec.type=ClusterIP"),
        ("services", "spec.clusterIP=None"),
        ("events", "involvedObject.kind=Pod,reason=R,type=Normal,reportingComponent=x,source=x"),
        ("events", "regarding.name=x"),
        ("replicationcontrollers", "status.replicas=0"),
        ("serviceaccounts", "metadata.uid=x"),
    ):
        answer = await recording.get(recording.path(where), query={"fieldSelector": selector})
        if answer.status == 200:
            recording.retell([one["metadata"]["name"] for one in answer.body["items"]])
    for selector in ("spec.mode=b", "spec.mode!=b", "spec.replicas=1", "metadata.name=a"):
        answer = await recording.get(recorded_widgets.path(), query={"fieldSelector": selector})
        if answer.status == 200:
            recording.retell([one["metadata"]["name"] for one in answer.body["items"]])
    for plural, api, selector in (
        ("jobs", "/apis/batch/v1", "status.successful=0"),
        ("replicasets", "/apis/apps/v1", "status.replicas=0"),
        ("deployments", "/apis/apps/v1", "status.replicas=0"),
        ("leases", "/apis/coordination.k8s.io/v1", "spec.holderIdentity=x"),
        ("events", "/apis/events.k8s.io/v1", "regarding.kind=Pod,reason=R"),
    ):
        await recording.get(recording.path(plural, api=api), query={"fieldSelector": selector})
    for path, selector in (
        ("/api/v1/nodes", "spec.unschedulable=true"),
        ("/api/v1/nodes", "spec.taints=x"),
        ("/api/v1/namespaces", "status.phase=Terminated"),
    ):
        await recording.get(path, query={"fieldSelector": selector})
