"""Patches that must not make more of an object than they bring."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manta.localplane.store.store import OBJECT_LIMIT
from support.sender import Sender

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ONE = f"{CONFIG_MAPS}/one"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


async def config_map(tenant: Sender, **data: str) -> None:
    made = await tenant.send("POST", CONFIG_MAPS, {"metadata": {"name": "one"}, "data": data})
    assert made.status == 201


async def size_of(tenant: Sender) -> int:
    return len((await tenant.send("GET", ONE)).body)


async def test_copies_that_double_are_refused(tenant: Sender) -> None:
    """X4: 2 KB of patch took seconds and stored 22 MB."""
    await config_map(tenant, a="x" * 100)
    patch = [{"op": "add", "path": "/data/b", "value": {"v": "x" * 100}}]
    patch += [{"op": "copy", "from": "/data/b", "path": f"/data/b/c{n}"} for n in range(30)]
    status, message = await tenant.message("PATCH", ONE, patch, JSON_PATCH)
    assert status == 413
    assert "exceeding the limit 3145728" in message
    assert await size_of(tenant) < 1000


async def test_a_patch_has_at_most_ten_thousand_operations(tenant: Sender) -> None:
    """X4."""
    await config_map(tenant, a="x")
    patch = [{"op": "test", "path": "/data/a", "value": "x"}] * 10_001
    status, message = await tenant.message("PATCH", ONE, patch, JSON_PATCH)
    assert (status, "got 10001" in message) == (413, True)


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_a_custom_object_that_is_too_large_is_refused_with_size_and_limit(
    admin: Sender, query: str
) -> None:
    """X4: no rule of its kind bounds it."""
    path = await any_kind(admin)
    body = {"apiVersion": "t.io/v1", "kind": "Any", "metadata": {"name": "a"}, "x": "x" * (2 << 20)}
    status, message = await admin.message("POST", path + query, body)
    assert status == 413
    assert str(OBJECT_LIMIT) in message
    small = body | {"x": "y" * (800 << 10)}
    assert (await admin.send("POST", path, small)).status == 201
    patch = [{"op": "copy", "from": "/x", "path": "/z"}]
    status, message = await admin.message("PATCH", f"{path}/a{query}", patch, JSON_PATCH)
    assert status == 413
    assert 'anys.t.io "a" is too large' in message
    assert (await admin.send("DELETE", f"{path}/a")).status == 200


@pytest.mark.parametrize("media", [JSON_PATCH, MERGE, STRATEGIC, APPLY])
@pytest.mark.parametrize("depth", [101, 950, 5000])
async def test_a_deep_patch_is_a_bad_request(tenant: Sender, media: str, depth: int) -> None:
    """X4, X18: at depth 950 it was a 500 with a traceback."""
    await config_map(tenant, a="x")
    deep = '{"a":' * depth + "1" + "}" * depth
    text = f'[{{"op":"add","path":"/data","value":{deep}}}]' if media == JSON_PATCH else deep
    query = "?fieldManager=me" if media == APPLY else ""
    status, message = await tenant.message("PATCH", ONE + query, text, media)
    assert status == 400
    assert "nested more than 100 levels deep" in message


async def test_moves_cannot_nest_an_object_deeper_than_a_body_may(admin: Sender) -> None:
    """X4: each pair of operations adds one level with a path of a few bytes."""
    path = await any_kind(admin)
    body: dict[str, Any] = {"apiVersion": "t.io/v1", "kind": "Any", "metadata": {"name": "a"}}
    assert (await admin.send("POST", path, body | {"x": {}})).status == 201
    patch: list[dict[str, Any]] = []
    for _ in range(2000):
        patch.append({"op": "add", "path": "/y", "value": {}})
        patch.append({"op": "move", "from": "/x", "path": "/y/x"})
        patch.append({"op": "move", "from": "/y", "path": "/x"})
    status, message = await admin.message("PATCH", f"{path}/a", patch, JSON_PATCH)
    assert status == 400
    assert "nested more than 100 levels deep" in message


async def any_kind(admin: Sender) -> str:
    crd = {
        "metadata": {"name": "anys.t.io"},
        "spec": {
            "group": "t.io",
            "names": {"plural": "anys", "kind": "Any"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await admin.send("POST", path, crd)
    assert made.status == 201, json.loads(made.body)["message"]
    return "/apis/t.io/v1/namespaces/default/anys"
