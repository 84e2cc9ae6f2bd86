"""Custom resources: defaults, pruning, validation with causes, rules, status, scale, versions."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_api import eventually
from support.contract import GROUP, Api, Widgets, widget, widget_definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_definition_says_that_it_is_established(api: Api, widgets: Widgets) -> None:
    crd = (await api.get(f"{DEFINITIONS}/{widgets.plural}.{GROUP}")).body
    conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
    assert conditions["NamesAccepted"] == conditions["Established"] == "True"
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["status"]["acceptedNames"]["kind"] == "Widget"
    assert crd["spec"]["conversion"] == {"strategy": "None"}


async def test_a_definition_must_be_named_after_its_resource(api: Api) -> None:
    body = widget_definition("x") | {"metadata": {"name": "x.y"}}
    answer = await api.create(DEFINITIONS, body)
    assert answer.status == 422
    assert ("metadata.name", "FieldValueInvalid") in answer.causes
    assert 'must be spec.names.plural+"."+spec.group' in answer.message


async def test_discovery_shows_a_new_resource(api: Api, widgets: Widgets) -> None:
    listed = (await api.get(f"/apis/{GROUP}/v1")).body["resources"]
    shown = {one["name"]: one for one in listed}
    assert shown[widgets.plural]["kind"] == "Widget"
    assert shown[f"{widgets.plural}/status"]["verbs"] == ["get", "patch", "update"]
    assert shown[f"{widgets.plural}/scale"]["group"] == "autoscaling"


async def test_defaults_are_filled_and_unknown_fields_go(api: Api, widgets: Widgets) -> None:
    body = widget(
        "a", bogus=1, cpu=5, free={"x": {"y": 1}}, nul=None, items=[{"k": "1", "zz": 2}]
    ) | {"status": {"phase": "no"}}
    answer = await api.create(widgets.path(), body)
    assert answer.status == 201
    assert answer.body["spec"] == {
        "mode": "a",
        "replicas": 1,
        "cpu": 5,
        "free": {"x": {"y": 1}},
        "nul": None,
        "items": [{"k": "1", "v": "dv"}],
    }
    assert "status" not in answer.body
    assert 'unknown field \\"spec.items[0].zz\\"' in answer.headers["warning"]


async def test_strict_clients_hear_of_unknown_fields(api: Api, widgets: Widgets) -> None:
    query = {"fieldValidation": "Strict"}
    answer = await api.create(widgets.path(), widget("a", bogus=1), query=query)
    assert answer.status == 400
    assert answer.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "spec.bogus"'
    )


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"mode": "z"}, "spec.mode", "FieldValueNotSupported"),
        ({"name": "toolong"}, "spec.name", "FieldValueTooLong"),
        ({"replicas": 11}, "spec.replicas", "FieldValueInvalid"),
        ({"replicas": "two"}, "spec.replicas", "FieldValueTypeInvalid"),
        ({"cpu": "x"}, "spec.cpu", "FieldValueInvalid"),
        ({"set": ["a", "a"]}, "spec.set[1]", "FieldValueDuplicate"),
        ({"items": [{"k": "1"}, {"k": "1"}]}, "spec.items[1]", "FieldValueDuplicate"),
        ({"items": [{}]}, "spec.items[0].k", "FieldValueRequired"),
    ],
)
async def test_what_breaks_the_schema_is_invalid(
    api: Api, widgets: Widgets, spec: dict[str, Any], field: str, reason: str
) -> None:
    answer = await api.create(widgets.path(), widget("b", **spec))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert (field, reason) in answer.causes
    assert answer.body["details"]["kind"] == "Widget"
    assert answer.body["details"]["group"] == GROUP


async def test_rules_see_the_old_value(api: Api, widgets: Widgets) -> None:
    await widgets.made("a", imm="1")
    answer = await api.patch(widgets.path("a"), {"spec": {"imm": "2"}})
    assert answer.status == 422
    assert answer.causes == [("spec.imm", "FieldValueInvalid")]
    assert answer.message.endswith('spec.imm: Invalid value: "2": imm is immutable')


async def test_the_version_in_the_body_must_be_the_one_in_the_path(
    api: Api, widgets: Widgets
) -> None:
    answer = await api.create(widgets.path(), widget("a") | {"apiVersion": f"{GROUP}/v2"})
    assert answer.status == 400
    assert answer.message == (
        f"the API version in the data ({GROUP}/v2) does not match the expected API version "
        f"({GROUP}/v1)"
    )


async def test_a_replacement_needs_a_version(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    answer = await api.replace(widgets.path("a"), widget("a"))
    assert answer.status == 422
    assert answer.causes == [("metadata.resourceVersion", "FieldValueInvalid")]


async def test_generation_counts_changes_of_the_spec_only(api: Api, widgets: Widgets) -> None:
    where = widgets.path("a")

    async def generation(answer: Any) -> int:
        assert answer.status == 200, answer.text
        return int((await api.get(where)).body["metadata"]["generation"])

    assert (await widgets.made("a"))["metadata"]["generation"] == 1
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert await generation(await api.patch(where, labels)) == 1
    assert await generation(await api.patch(where, {"spec": {"replicas": 2}})) == 2
    assert await generation(await api.patch(where, {"spec": {"replicas": 2}})) == 2
    status = {"status": {"phase": "Yes"}}
    assert await generation(await api.patch(f"{where}/status", status)) == 2
    assert await generation(await api.patch(where, {"metadata": {"generation": 99}})) == 2
    final = {"metadata": {"finalizers": ["ex.com/f"]}}
    assert await generation(await api.patch(where, final)) == 2
    assert await generation(await api.delete(where)) == 3
    assert await generation(await api.patch(where, {"spec": {"replicas": 3}})) == 4
    await api.patch(where, {"metadata": {"finalizers": None}})
    assert (await api.get(where)).status == 404


async def test_status_and_the_rest_are_written_apart(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    main = await api.patch(widgets.path("a"), {"status": {"phase": "No"}})
    assert "status" not in main.body
    body = {
        "status": {"phase": "Yes"},
        "spec": {"replicas": 9},
        "metadata": {"labels": {"l": "no"}},
    }
    status = (await api.patch(widgets.path("a", "status"), body)).body
    assert status["status"] == {"phase": "Yes"}
    assert status["spec"]["replicas"] == 1
    assert "labels" not in status["metadata"]
    kept = (await api.patch(widgets.path("a"), {"spec": {"replicas": 2}})).body
    assert kept["status"] == {"phase": "Yes"}


async def test_the_uid_cannot_be_changed(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    answer = await api.patch(widgets.path("a"), {"metadata": {"uid": "zzz"}})
    assert answer.status == 422
    assert answer.causes[0] == ("metadata.uid", "FieldValueInvalid")


async def test_the_scale_subresource_shows_and_sets_replicas(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    scale = (await api.get(widgets.path("a", "scale"))).body
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0})
    patched = await api.patch(widgets.path("a", "scale"), {"spec": {"replicas": 4}})
    assert patched.body["spec"] == {"replicas": 4}
    put = await api.replace(widgets.path("a", "scale"), patched.body | {"spec": {"replicas": 3}})
    assert put.status == 200, put.text
    assert (await api.get(widgets.path("a"))).body["spec"]["replicas"] == 3


async def test_removing_a_definition_removes_its_objects(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    gone = await api.delete(f"{DEFINITIONS}/{widgets.plural}.{GROUP}")
    assert gone.status == 200
    await api.until_gone(f"{DEFINITIONS}/{widgets.plural}.{GROUP}")
    await api.until_gone(widgets.path())


async def test_two_versions_show_the_same_object(api: Api) -> None:
    suffix = f"v{api.namespace.rpartition('-')[2]}"
    body = widget_definition(suffix)
    (first,) = body["spec"]["versions"]
    del first["selectableFields"]
    alpha = first | {"name": "v1alpha1", "storage": False}
    body["spec"]["versions"].append(alpha)
    crd = await api.made(DEFINITIONS, body)
    old, new = (
        api.path(f"widgets{suffix}", api=f"/apis/{GROUP}/{version}")
        for version in ("v1alpha1", "v1")
    )
    try:
        while (await api.get(old)).status != 200 or (await api.get(new)).status != 200:
            pass
        await api.made(old, widget("a") | {"apiVersion": f"{GROUP}/v1alpha1"})
        assert (await api.get(f"{new}/a")).body["apiVersion"] == f"{GROUP}/v1"
        assert (await api.get(f"{old}/a")).body["apiVersion"] == f"{GROUP}/v1alpha1"
        assert (await api.get(f"{new}/a")).body["spec"] == {"mode": "a", "replicas": 1}
        assert (await api.get(new)).body["items"][0]["apiVersion"] == f"{GROUP}/v1"
    finally:
        await api.delete(f"{DEFINITIONS}/{crd['metadata']['name']}")


async def test_new_defaults_reach_old_objects(api: Api, widgets: Widgets) -> None:
    await widgets.made("a")
    where = f"{DEFINITIONS}/{widgets.plural}.{GROUP}"
    crd = (await api.get(where)).body
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["fresh"] = {"type": "string", "default": "new"}
    assert (await api.replace(where, crd)).status == 200

    async def both_have_it() -> bool:  # a real server answers 429 while it takes the schema over
        one, every = await api.get(widgets.path("a")), await api.get(widgets.path())
        if (one.status, every.status) != (200, 200):
            return False
        return [it["spec"].get("fresh") for it in (one.body, *every.body["items"])] == ["new"] * 2

    await eventually(both_have_it)
