"""Options of writes: dry runs, field validation, who writes."""

from __future__ import annotations

import pytest

from support.contract import Api, config_map

DRY = {"dryRun": "All"}


async def test_a_dry_creation_stores_nothing(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), config_map("dry"), query=DRY)
    assert answer.status == 201
    assert answer.body["metadata"]["uid"]
    assert "resourceVersion" not in answer.body["metadata"]
    assert (await api.get(api.path("configmaps", "dry"))).status == 404


async def test_a_dry_patch_changes_nothing(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    answer = await api.patch(api.path("configmaps", "a"), {"data": {"k": "2"}}, query=DRY)
    assert answer.body["data"] == {"k": "2"}
    assert (await api.get(api.path("configmaps", "a"))).body["data"] == {"k": "1"}


@pytest.mark.parametrize(
    ("query", "field"),
    [({"dryRun": "yes"}, "dryRun"), ({"fieldValidation": "X"}, "fieldValidation")],
)
async def test_options_are_checked(api: Api, query: dict[str, str], field: str) -> None:
    answer = await api.create(api.path("configmaps"), config_map("a"), query=query)
    assert answer.status == 422
    assert answer.causes == [(field, "FieldValueNotSupported")]
    assert answer.body["details"]["kind"] == "CreateOptions"


async def test_unknown_fields_are_refused_warned_of_or_ignored(api: Api) -> None:
    body = config_map("fv") | {"bogus": 1}
    where = api.path("configmaps")
    strict = await api.create(where, body, query={"fieldValidation": "Strict"})
    assert strict.status == 400
    assert strict.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "bogus"'
    )
    warned = await api.create(where, body, query=DRY)
    assert warned.headers["warning"] == '299 - "unknown field \\"bogus\\""'
    assert "bogus" not in warned.body
    ignored = await api.create(where, body, query=DRY | {"fieldValidation": "Ignore"})
    assert "warning" not in ignored.headers


async def test_doubled_fields_are_reported(api: Api) -> None:
    body = (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"},"data":{"a":"1","a":"2"}}'
    )
    where = api.path("configmaps")
    strict = await api.create(where, body, query={"fieldValidation": "Strict"})
    assert strict.message.endswith('strict decoding error: duplicate field "data.a"')
    warned = await api.create(where, body, query=DRY)
    assert 'duplicate field \\"data.a\\"' in warned.headers["warning"]
