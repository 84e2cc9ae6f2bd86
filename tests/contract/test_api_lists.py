"""Lists: one revision for everything, pages that are a snapshot, selectors, other shapes."""

from __future__ import annotations

import asyncio

import pytest

from support.contract import PARTIAL, TABLE, Api, Widgets, config_map, pod


async def names(api: Api, query: dict[str, str]) -> list[str]:
    answer = await api.get(api.path("configmaps"), query=query)
    assert answer.status == 200, answer.text
    found = [item["metadata"]["name"] for item in answer.body["items"]]
    return [name for name in found if name != "kube-root-ca.crt"]


async def numbered(api: Api, count: int) -> None:
    for number in range(count):
        body = config_map(f"l{number}", labels={"l": str(number)})
        await api.made(api.path("configmaps"), body)


async def test_items_of_built_in_kinds_leave_out_what_the_list_says(api: Api) -> None:
    await numbered(api, 1)
    listed = (await api.get(api.path("configmaps"))).body
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])


async def test_lists_carry_the_revision_of_the_whole_server(api: Api, widgets: Widgets) -> None:
    made = await api.made(api.path("configmaps"), config_map("a"))
    listed = await api.get(widgets.path())
    assert int(listed.version) >= int(made["metadata"]["resourceVersion"])
    assert listed.body["items"] == []


async def test_a_write_that_changes_nothing_keeps_the_version(api: Api) -> None:
    made = await api.made(api.path("configmaps"), config_map("a"))
    same = await api.replace(api.path("configmaps", "a"), made)
    patched = await api.patch(api.path("configmaps", "a"), {"data": {"k": "1"}})
    assert same.version == patched.version == made["metadata"]["resourceVersion"]
    assert patched.body["metadata"] == made["metadata"]


async def test_pages_show_one_snapshot(api: Api) -> None:
    await numbered(api, 5)
    query = {"limit": "2", "labelSelector": "l"}
    first = (await api.get(api.path("configmaps"), query=query)).body
    await api.made(api.path("configmaps"), config_map("l1x", labels={"l": "9"}))
    await api.delete(api.path("configmaps", "l3"))
    token = first["metadata"]["continue"]
    second = (await api.get(api.path("configmaps"), query=query | {"continue": token})).body
    assert [item["metadata"]["name"] for item in first["items"]] == ["l0", "l1"]
    assert [item["metadata"]["name"] for item in second["items"]] == ["l2", "l3"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_a_page_says_how_much_is_left(api: Api, widgets: Widgets) -> None:
    for name in ("a", "b", "c"):
        await widgets.made(name)
    page = (await api.get(widgets.path(), query={"limit": "1"})).body
    assert page["metadata"]["remainingItemCount"] == 2


async def test_a_broken_token_is_refused(api: Api) -> None:
    answer = await api.get(api.path("configmaps"), query={"limit": "1", "continue": "garbage"})
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith("invalid continue token")


async def test_an_exact_revision_shows_the_past(api: Api) -> None:
    await numbered(api, 1)
    before = (await api.get(api.path("configmaps"))).version
    await api.made(api.path("configmaps"), config_map("l9", labels={"l": "9"}))
    query = {"resourceVersion": before, "resourceVersionMatch": "Exact", "labelSelector": "l"}
    assert await names(api, query) == ["l0"]


async def test_the_future_is_a_timeout(api: Api) -> None:
    query = {"resourceVersion": "999999999", "resourceVersionMatch": "Exact"}
    answer = await api.get(api.path("configmaps"), query=query)
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.causes == [("", "ResourceVersionTooLarge")]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"resourceVersionMatch": "NotOlderThan"}, 422),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersion": "1", "resourceVersionMatch": "Nope"}, 422),
        ({"resourceVersion": "abc"}, 400),
        ({"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}, 200),
    ],
)
async def test_revisions_are_checked(api: Api, query: dict[str, str], status: int) -> None:
    assert (await api.get(api.path("configmaps"), query=query)).status == status


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("l in (1,2)", ["l1", "l2"]),
        ("l notin (1),l", ["l0", "l2", "l3"]),
        ("!l", ["other"]),
        ("l!=1", ["l0", "l2", "l3", "other"]),
        ("l==1", ["l1"]),
        ("l=1,!x", ["l1"]),
        ("l>1", ["l2", "l3"]),
        ("l<1", ["l0"]),
        ("l==", []),
    ],
)
async def test_labels_select(api: Api, selector: str, found: list[str]) -> None:
    await numbered(api, 4)
    await api.made(api.path("configmaps"), config_map("other"))
    assert await names(api, {"labelSelector": selector}) == found


@pytest.mark.parametrize("selector", ["a b", "in (", "a in", "=a", "a=b c", "-=-"])
async def test_selectors_that_cannot_be_read_are_refused(api: Api, selector: str) -> None:
    answer = await api.get(api.path("configmaps"), query={"labelSelector": selector})
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_fields_select(api: Api) -> None:
    await numbered(api, 3)
    assert await names(api, {"fieldSelector": "metadata.name=l1"}) == ["l1"]
    assert await names(api, {"fieldSelector": "metadata.name!=l1,metadata.name!=l2"}) == ["l0"]
    answer = await api.get(api.path("configmaps"), query={"fieldSelector": "data.k=1"})
    assert answer.message == (
        '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


async def test_pods_are_selected_by_node_and_phase(api: Api) -> None:
    await api.made(api.path("pods"), pod("here", nodeName="contract-node"))
    await api.made(api.path("pods"), pod("nowhere", schedulerName="nobody"))
    query = {"fieldSelector": "spec.nodeName=contract-node"}
    found = (await api.get(api.path("pods"), query=query)).body["items"]
    assert [item["metadata"]["name"] for item in found] == ["here"]
    query = {"fieldSelector": "status.phase=Pending,spec.nodeName="}
    found = (await api.get(api.path("pods"), query=query)).body["items"]
    assert [item["metadata"]["name"] for item in found] == ["nowhere"]
    answer = await api.get(api.path("pods"), query={"fieldSelector": "spec.foo=1"})
    assert answer.message == "field label not supported: spec.foo"
    await api.delete(api.path("pods", "here"), {"gracePeriodSeconds": 0})


async def test_custom_resources_choose_their_fields(api: Api, widgets: Widgets) -> None:
    await widgets.made("one", mode="a")
    await widgets.made("two", mode="b")
    found = (await api.get(widgets.path(), query={"fieldSelector": "spec.mode=b"})).body["items"]
    assert [item["metadata"]["name"] for item in found] == ["two"]
    answer = await api.get(widgets.path(), query={"fieldSelector": "spec.replicas=1"})
    assert answer.message == "field label not supported: spec.replicas"


async def test_tables_show_columns_and_metadata(api: Api, widgets: Widgets) -> None:
    await widgets.made("one", replicas=3)
    table = (await api.get(widgets.path(), accept=TABLE)).body
    assert table["kind"] == "Table"
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Replicas", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:2] == ["one", 3]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "one"


async def test_tables_can_leave_the_object_out(api: Api, widgets: Widgets) -> None:
    await widgets.made("one")
    query = {"includeObject": "None"}
    table = (await api.get(widgets.path("one"), accept=TABLE, query=query)).body
    assert not table["rows"][0].get("object")


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("/api/v1/pods", "Name Ready Status Restarts Age"),
        ("/api/v1/services", "Name Type Cluster-IP External-IP Port(s) Age"),
        ("/apis/batch/v1/jobs", "Name Status Completions Duration Age"),
        ("/api/v1/nodes", "Name Status Roles Age Version"),
        ("/api/v1/namespaces", "Name Status Age"),
        ("/api/v1/secrets", "Name Type Data Age"),
        ("/apis/apps/v1/deployments", "Name Ready Up-to-date Available Age"),
        ("/apis/apps/v1/replicasets", "Name Desired Current Ready Age"),
        ("/apis/discovery.k8s.io/v1/endpointslices", "Name AddressType Ports Endpoints Age"),
        ("/apis/coordination.k8s.io/v1/leases", "Name Holder Age"),
        ("/apis/networking.k8s.io/v1/ingresses", "Name Class Hosts Address Ports Age"),
        ("/api/v1/resourcequotas", "Name Request Limit Age"),
    ],
)
async def test_built_in_tables_have_their_columns(api: Api, path: str, columns: str) -> None:
    table = (await api.get(path, accept=TABLE, query={"limit": "1"})).body
    shown = [one["name"] for one in table["columnDefinitions"] if not one["priority"]]
    assert " ".join(shown) == columns


async def test_metadata_alone_can_be_read(api: Api, widgets: Widgets) -> None:
    await widgets.made("one")
    listed = (await api.get(widgets.path(), accept=PARTIAL)).body
    assert listed["kind"] == "PartialObjectMetadataList"
    (item,) = listed["items"]
    assert item["metadata"]["name"] == "one"
    assert "spec" not in item


async def test_a_long_list_is_as_whole_as_its_pages(api: Api) -> None:
    await asyncio.gather(*(numbered_from(api, first, 65) for first in range(0, 520, 65)))
    whole = await names(api, {})
    paged, token = [], ""
    while not paged or token:
        query = {"limit": "200"} | ({"continue": token} if token else {})
        page = (await api.get(api.path("configmaps"), query=query)).body
        paged += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert len(whole) == 520
    assert whole == [name for name in paged if name != "kube-root-ca.crt"]


async def numbered_from(api: Api, first: int, count: int) -> None:
    for number in range(first, first + count):
        await api.made(api.path("configmaps"), config_map(f"l{number}"))
