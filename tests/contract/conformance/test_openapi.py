"""Publishing of the schemas of custom resources (9): in OpenAPI v3, which clients read today."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.cluster_api import eventually
from support.contract import Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "description": "Specification of Foo",
    "properties": {
        "bars": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "age": {"type": "string"}},
            },
        }
    },
}
FOO = {"type": "object", "description": "Foo for testing", "properties": {"spec": SPEC}}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def group(api: Api, name: str = "a") -> str:
    return f"{name}-{api.namespace.rpartition('-')[2]}.example.com"


def definition(api: Api, kind: str, schema: Any, *versions: str, of: str = "a") -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    listed = [
        {
            "name": version,
            "served": True,
            "storage": number == 0,
            "schema": {"openAPIV3Schema": schema},
        }
        for number, version in enumerate(versions or ("v1",))
    ]
    return {
        "metadata": {"name": f"{plural}.{group(api, of)}"},
        "spec": {
            "group": group(api, of),
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": listed,
        },
    }


@asynccontextmanager
async def defined(api: Api, *bodies: dict[str, Any]) -> AsyncIterator[None]:
    for body in bodies:
        await api.made(DEFINITIONS, body)
    try:
        yield
    finally:
        for body in bodies:
            await api.delete(f"{DEFINITIONS}/{body['metadata']['name']}")


async def document(api: Api, version: str, of: str = "a") -> dict[str, Any] | None:
    """As clients find it: by the index, and only then by its address."""
    index = (await api.get("/openapi/v3")).body["paths"]
    found = index.get(f"apis/{group(api, of)}/{version}")
    if found is None:
        return None
    path, _, query = found["serverRelativeURL"].partition("?")
    answer = await api.get(path, query={"hash": query.partition("=")[2]})
    body: dict[str, Any] = answer.body
    return body


def kind_of(body: dict[str, Any] | None, kind: str) -> dict[str, Any] | None:
    for schema in ((body or {}).get("components") or {}).get("schemas", {}).values():
        for one in schema.get("x-kubernetes-group-version-kind") or ():
            if one["kind"] == kind:
                found: dict[str, Any] = schema
                return found
    return None


async def published(api: Api, kind: str, version: str = "v1", of: str = "a") -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        return kind_of(await document(api, version, of), kind)

    schema = await eventually(found, 60)
    assert schema is not None
    return schema


async def gone(api: Api, kind: str, version: str, of: str = "a") -> None:
    """The real server keeps the v3 document of a version that is gone, and forgets it in v2."""

    async def absent() -> bool:
        if api.embedded:
            return kind_of(await document(api, version, of), kind) is None
        await asyncio.sleep(1)  # two megabytes
        wanted = {"group": group(api, of), "version": version, "kind": kind}
        definitions = (await api.get("/openapi/v2")).body["definitions"].values()
        return not any(
            wanted in (one.get("x-kubernetes-group-version-kind") or ()) for one in definitions
        )

    await eventually(absent, 60)


async def test_openapi_works_for_a_crd_with_a_validation_schema(api: Api) -> None:
    async with defined(api, definition(api, "Foo", FOO)):
        schema = await published(api, "Foo")
        assert schema["description"] == "Foo for testing"
        spec = schema["properties"]["spec"]
        assert spec["description"] == "Specification of Foo"
        assert spec["properties"]["bars"]["items"]["required"] == ["name"]
        assert {"apiVersion", "kind", "metadata"} <= schema["properties"].keys()


async def test_openapi_works_for_a_crd_without_a_validation_schema(api: Api) -> None:
    async with defined(api, definition(api, "Foo", OPEN)):
        schema = await published(api, "Foo")
        assert schema["x-kubernetes-preserve-unknown-fields"] is True


async def test_openapi_works_for_a_crd_preserving_unknown_fields_at_the_root(api: Api) -> None:
    async with defined(api, definition(api, "Foo", FOO | OPEN)):
        schema = await published(api, "Foo")
        assert schema["x-kubernetes-preserve-unknown-fields"] is True
        assert "spec" in schema["properties"]


async def test_openapi_works_for_a_crd_preserving_unknown_fields_in_an_object(api: Api) -> None:
    inner = {"type": "object", "properties": {"spec": OPEN}}
    async with defined(api, definition(api, "Foo", inner)):
        schema = await published(api, "Foo")
        assert schema["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] is True


async def test_openapi_works_for_crds_of_different_groups(api: Api) -> None:
    one, other = definition(api, "Foo", FOO), definition(api, "Waldo", OPEN, of="b")
    async with defined(api, one, other):
        assert "spec" in (await published(api, "Foo"))["properties"]
        await published(api, "Waldo", of="b")


async def test_openapi_works_for_one_group_with_several_versions(api: Api) -> None:
    async with defined(api, definition(api, "Foo", FOO, "v2", "v3")):
        for version in ("v2", "v3"):
            assert "spec" in (await published(api, "Foo", version))["properties"]


async def test_openapi_works_for_several_kinds_of_one_version(api: Api) -> None:
    async with defined(api, definition(api, "Foo", FOO), definition(api, "Bar", OPEN)):
        await published(api, "Foo")
        await published(api, "Bar")


async def test_openapi_follows_when_a_version_is_renamed(api: Api) -> None:
    body = definition(api, "Foo", FOO, "v2", "v3")
    async with defined(api, body):
        await published(api, "Foo", "v3")
        versions = body["spec"]["versions"]
        versions[1]["name"] = "v4"
        answer = await api.patch(
            f"{DEFINITIONS}/{body['metadata']['name']}", {"spec": {"versions": versions}}
        )
        assert answer.status == 200, answer.text
        assert "spec" in (await published(api, "Foo", "v4"))["properties"]
        await gone(api, "Foo", "v3")
        await published(api, "Foo", "v2")


async def test_openapi_forgets_a_version_that_is_not_served(api: Api) -> None:
    body = definition(api, "Foo", FOO, "v5", "v6")
    async with defined(api, body):
        await published(api, "Foo", "v6")
        versions = body["spec"]["versions"]
        versions[1]["served"] = False
        answer = await api.patch(
            f"{DEFINITIONS}/{body['metadata']['name']}", {"spec": {"versions": versions}}
        )
        assert answer.status == 200, answer.text
        await gone(api, "Foo", "v6")
        await published(api, "Foo", "v5")
