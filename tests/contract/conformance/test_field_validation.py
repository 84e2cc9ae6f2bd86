"""Field validation (7): unknown and doubled fields, of built-in kinds and of custom resources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.contract import APPLY, GROUP, MERGE, STRATEGIC, Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRICT = {"fieldValidation": "Strict"}


@asynccontextmanager
async def defined(api: Api, schema: dict[str, Any]) -> AsyncIterator[str]:
    plural = f"gadgets{api.namespace.rpartition('-')[2]}"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": "Gadget"},
        "versions": [version],
    }
    name = f"{plural}.{GROUP}"
    await api.made(DEFINITIONS, {"metadata": {"name": name}, "spec": spec})
    where = api.path(plural, api=f"/apis/{GROUP}/v1")
    try:
        async with asyncio.timeout(30):
            while (await api.get(where)).status != 200:
                await asyncio.sleep(0.02)
        yield where
    finally:
        await api.delete(f"{DEFINITIONS}/{name}")


def gadget(name: str, **members: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        **members,
    }


SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"foo": {"type": "string"}}}},
}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"metadata": {"type": "object"}},
                }
            },
        }
    },
}


async def test_unknown_and_duplicate_fields_of_a_typed_object(api: Api) -> None:
    where = api.path("deployments", api="/apis/apps/v1")
    body = (
        b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"unknown1":'
        b'"x","unknownDupe":1,"unknownDupe":2,"paused":true,"paused":true,"replicas":0,"selector":'
        b'{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":'
        b'{"containers":[{"name":"c","image":"i"}]}}}}'
    )
    refused = await api.create(where, body, query=STRICT)
    assert refused.status == 400
    for fault in (
        'unknown field "spec.unknown1"',
        'unknown field "spec.unknownDupe"',
        'duplicate field "spec.paused"',
    ):
        assert fault in refused.message
    assert 'duplicate field "spec.unknownDupe"' not in refused.message
    warned = await api.create(where, body, query={"fieldValidation": "Warn"})
    assert warned.status == 201
    assert " field " in warned.headers["warning"]  # one of several such headers
    silent = await api.patch(
        f"{where}/d", {"spec": {"unknown2": 1}}, MERGE, query={"fieldValidation": "Ignore"}
    )
    assert silent.status == 200
    assert "warning" not in silent.headers
    strict = await api.patch(f"{where}/d", {"spec": {"unknown2": 1}}, STRATEGIC, query=STRICT)
    assert strict.status == 422
    assert 'unknown field "spec.unknown2"' in strict.message


async def test_unknown_metadata_fields_of_a_typed_object(api: Api) -> None:
    body = {"metadata": {"name": "c", "unknownMeta": "x"}}
    refused = await api.create(api.path("configmaps"), body, query=STRICT)
    assert refused.status == 400
    assert 'unknown field "metadata.unknownMeta"' in refused.message
    warned = await api.create(api.path("configmaps"), body)
    assert warned.status == 201
    assert "metadata.unknownMeta" in warned.headers["warning"]


async def test_a_valid_object_of_a_crd_with_a_schema(api: Api) -> None:
    async with defined(api, SCHEMA) as where:
        made = await api.create(where, gadget("a", spec={"foo": "bar"}), query=STRICT)
        assert made.status == 201
        query = {**STRICT, "fieldManager": "m"}
        applied = await api.patch(
            f"{where}/b", gadget("b", spec={"foo": "baz"}), APPLY, query=query
        )
        assert applied.status == 201
        assert applied.body["spec"] == {"foo": "baz"}


async def test_unknown_fields_of_a_crd_without_a_schema(api: Api) -> None:
    async with defined(api, OPEN) as where:
        body = gadget("a", spec={"anything": {"at": ["all"]}})
        made = await api.create(where, body, query=STRICT)
        assert made.status == 201
        assert made.body["spec"] == {"anything": {"at": ["all"]}}
        query = {**STRICT, "fieldManager": "m"}
        assert (await api.patch(f"{where}/b", gadget("b", x=1), APPLY, query=query)).status == 201


async def test_extra_properties_of_a_crd_with_a_schema(api: Api) -> None:
    async with defined(api, SCHEMA) as where:
        body = gadget("a", spec={"foo": "bar", "extra": "x"}, unknown="y")
        refused = await api.create(where, body, query=STRICT)
        assert refused.status == 400
        assert 'unknown field "spec.extra"' in refused.message
        assert 'unknown field "unknown"' in refused.message
        query = {**STRICT, "fieldManager": "m"}
        applied = await api.patch(f"{where}/a", body, APPLY, query=query)
        assert applied.status in (400, 500)
        assert (await api.get(f"{where}/a")).status == 404


async def test_unknown_metadata_fields_in_the_root_and_in_an_embedded_object(api: Api) -> None:
    async with defined(api, EMBEDDED) as where:
        inner = {
            "apiVersion": "v1",
            "kind": "Thing",
            "metadata": {"name": "in", "unknownSub": 1},
            "free": 1,
        }
        body = gadget("a", spec={"template": inner})
        body["metadata"]["unknownMeta"] = 1
        refused = await api.create(where, body, query=STRICT)
        assert refused.status == 400
        assert 'unknown field "metadata.unknownMeta"' in refused.message
        assert 'unknown field "spec.template.metadata.unknownSub"' in refused.message
        warned = await api.create(where, body)
        assert warned.status == 201
        assert warned.body["spec"]["template"]["metadata"] == {"name": "in"}
        assert warned.body["spec"]["template"]["free"] == 1


async def test_duplicates_in_an_object_that_keeps_unknown_fields(api: Api) -> None:
    async with defined(api, OPEN) as where:
        text = json.dumps(gadget("a", spec={"x": 1}))
        doubled = text.replace('"x": 1', '"x": 1, "x": 2').encode()
        refused = await api.create(where, doubled, query=STRICT)
        assert refused.status == 400
        assert 'duplicate field "spec.x"' in refused.message
        warned = await api.create(where, doubled)
        assert warned.status == 201
        assert "duplicate field" in warned.headers["warning"]
        assert warned.body["spec"] == {"x": 2}
