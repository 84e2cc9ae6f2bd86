"""CustomResourceDefinitions (5) and selectable fields (1)."""

from __future__ import annotations

import asyncio
from typing import Any

from support.contract import GROUP, Answer, Api, Widgets, widget, widget_definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def suffix(api: Api, more: str = "") -> str:
    return api.namespace.rpartition("-")[2] + more


async def test_definitions_should_be_created_and_deleted(api: Api) -> None:
    made = await api.made(DEFINITIONS, widget_definition(suffix(api)))
    name = made["metadata"]["name"]
    assert (await api.get(f"{DEFINITIONS}/{name}")).status == 200
    assert (await api.delete(f"{DEFINITIONS}/{name}")).status == 200
    await api.until_gone(f"{DEFINITIONS}/{name}")


async def test_definitions_should_be_listed_and_deleted_together(api: Api) -> None:
    label = {"list-of": suffix(api)}
    for number in range(10):
        body = widget_definition(suffix(api, f"x{number}"))
        body["metadata"]["labels"] = label
        await api.made(DEFINITIONS, body)
    query = {"labelSelector": f"list-of={suffix(api)}"}
    assert len((await api.get(DEFINITIONS, query=query)).body["items"]) == 10
    assert (await api.delete(DEFINITIONS, query=query)).status == 200

    async def left() -> int:
        return len((await api.get(DEFINITIONS, query=query)).body["items"])

    async with asyncio.timeout(60):
        while await left():
            await asyncio.sleep(0.1)


async def status_with_condition(api: Api, where: str) -> Answer:
    """Repeated after conflicts: the server's own controllers write the status too."""
    condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "x"}
    while True:
        body = (await api.get(f"{where}/status")).body
        conditions = body["status"].get("conditions") or []
        if any(one["type"] == "Established" for one in conditions):
            conditions.append(condition)
            answer = await api.replace(f"{where}/status", body)
            if answer.status != 409:
                return answer
        await asyncio.sleep(0.02)


async def test_the_status_of_a_definition_should_be_read_updated_and_patched(api: Api) -> None:
    made = await api.made(DEFINITIONS, widget_definition(suffix(api)))
    where = f"{DEFINITIONS}/{made['metadata']['name']}"
    try:
        async with asyncio.timeout(30):
            answer = await status_with_condition(api, where)
        assert answer.status == 200, answer.text
        kinds = {one["type"] for one in answer.body["status"]["conditions"]}
        assert "StatusUpdate" in kinds
        patched = {"status": {"conditions": [*answer.body["status"]["conditions"]]}}
        patched["status"]["conditions"][-1]["message"] = "y"
        answer = await api.patch(f"{where}/status", patched)
        reported = {one["type"]: one for one in answer.body["status"]["conditions"]}
        assert reported["StatusUpdate"]["message"] == "y"
        assert answer.body["spec"] == made["spec"]
    finally:
        await api.delete(where)


async def test_definitions_should_be_in_the_discovery_documents(api: Api) -> None:
    groups = (await api.get("/apis")).body["groups"]
    group = next(one for one in groups if one["name"] == "apiextensions.k8s.io")
    assert {"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"} in group["versions"]
    assert (await api.get("/apis/apiextensions.k8s.io")).body["name"] == "apiextensions.k8s.io"
    listed = (await api.get("/apis/apiextensions.k8s.io/v1")).body["resources"]
    found = next(one for one in listed if one["name"] == "customresourcedefinitions")
    assert found["kind"] == "CustomResourceDefinition"
    assert found["namespaced"] is False


async def test_defaults_should_apply_to_requests_and_to_what_is_stored(api: Api) -> None:
    body = widget_definition(suffix(api))
    made = await api.made(DEFINITIONS, body)
    definition = f"{DEFINITIONS}/{made['metadata']['name']}"
    widgets = Widgets(api, made["spec"]["names"]["plural"])
    try:
        async with asyncio.timeout(30):
            while (await api.get(widgets.path())).status != 200:
                await asyncio.sleep(0.02)
        assert (await widgets.made("a"))["spec"] == {"mode": "a", "replicas": 1}
        added: Any = made["spec"]["versions"]
        properties = added[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["late"] = {"type": "string", "default": "from storage"}
        answer = await api.patch(definition, {"spec": {"versions": added}})
        assert answer.status == 200, answer.text
        async with asyncio.timeout(30):
            while True:
                spec = (await api.get(widgets.path("a"))).body["spec"]
                if "late" in spec:
                    break
                await asyncio.sleep(0.05)
        assert spec == {"mode": "a", "replicas": 1, "late": "from storage"}
        properties["replicas"].pop("default")
        assert (await api.patch(definition, {"spec": {"versions": added}})).status == 200
        async with asyncio.timeout(30):
            number = 0
            while True:
                number += 1
                fresh = await widgets.made(f"b{number}")
                if "replicas" not in fresh["spec"]:
                    break
                await asyncio.sleep(0.05)
        assert (await api.get(widgets.path("a"))).body["spec"]["replicas"] == 1
    finally:
        await api.delete(definition)


async def test_custom_resources_should_be_listed_and_watched_by_field(
    api: Api, widgets: Widgets
) -> None:
    query = {"fieldSelector": "spec.mode=b"}
    start = (await api.get(widgets.path())).version
    await widgets.made("a", mode="a")
    await widgets.made("b", mode="b")
    listed = (await api.get(widgets.path(), query=query)).body["items"]
    assert [one["metadata"]["name"] for one in listed] == ["b"]
    async with api.watch(widgets.path(), {**query, "resourceVersion": start}) as events:
        await api.patch(widgets.path("a"), {"spec": {"mode": "b"}})
        await api.patch(widgets.path("b"), {"spec": {"mode": "a"}})
        assert await events.take(3) == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b")]
    await api.delete(widgets.path(), query=query)
    left = (await api.get(widgets.path())).body["items"]
    assert [one["metadata"]["name"] for one in left] == ["b"]
    answer = await api.create(widgets.path(), widget("c"), query={"dryRun": "All"})
    assert answer.status == 201
    columns = (await api.get(f"/apis/{GROUP}/v1")).body["resources"]
    assert any(one["name"] == widgets.plural for one in columns)
