"""Server-side apply: owners of fields, conflicts, what goes when nobody wants it any more."""

from __future__ import annotations

from typing import Any

from support.contract import APPLY, GROUP, Answer, Api, Widgets, config_map


def owners(answer: Answer) -> dict[str, dict[str, Any]]:
    """What each manager owns, by name."""
    entries = answer.body["metadata"].get("managedFields") or []
    return {one["manager"]: one["fieldsV1"] for one in entries}


async def applied(api: Api, path: str, body: Any, manager: str, **query: str) -> Answer:
    return await api.patch(path, body, APPLY, query={"fieldManager": manager, **query})


async def test_who_creates_by_update_owns_the_fields(api: Api) -> None:
    answer = await api.create(api.path("configmaps"), config_map("a"), agent="someone/1.2")
    (entry,) = answer.body["metadata"]["managedFields"]
    assert entry.pop("time")
    assert entry == {
        "manager": "someone",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
    }


async def test_apply_creates_and_repeats_without_change(api: Api) -> None:
    where = api.path("configmaps", "ssa")
    body = config_map("ssa", {"a": "1", "b": "1"})
    first = await applied(api, where, body, "m1")
    assert first.status == 201
    assert owners(first) == {"m1": {"f:data": {"f:a": {}, "f:b": {}}}}
    again = await applied(api, where, body, "m1")
    assert (again.status, again.version) == (200, first.version)


async def test_conflicts_name_the_other_manager(api: Api) -> None:
    where = api.path("configmaps", "ssa")
    await applied(api, where, config_map("ssa", {"a": "1", "b": "1"}), "m1")
    mine = config_map("ssa", {"a": "2", "c": "3"})
    refused = await applied(api, where, mine, "m2")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    assert refused.causes == [(".data.a", "FieldManagerConflict")]
    forced = await applied(api, where, mine, "m2", force="true")
    assert forced.body["data"] == {"a": "2", "b": "1", "c": "3"}
    assert owners(forced) == {
        "m1": {"f:data": {"f:b": {}}},
        "m2": {"f:data": {"f:a": {}, "f:c": {}}},
    }


async def test_what_its_last_owner_drops_goes(api: Api) -> None:
    where = api.path("configmaps", "ssa")
    await applied(api, where, config_map("ssa", {"a": "1", "c": "1"}), "m1")
    dropped = await applied(api, where, config_map("ssa", {"a": "1"}), "m1")
    assert dropped.body["data"] == {"a": "1"}


async def test_shared_fields_stay_until_the_last_owner_drops_them(api: Api) -> None:
    where = api.path("configmaps", "ssa")
    for manager in ("m1", "m2"):
        await applied(api, where, config_map("ssa", {"a": "1"}), manager)
    one = await applied(api, where, config_map("ssa", {"x": "1"}), "m1")
    assert one.body["data"] == {"a": "1", "x": "1"}
    both = await applied(api, where, config_map("ssa", {"x": "1"}), "m2")
    assert both.body["data"] == {"x": "1"}


async def test_apply_needs_a_manager_and_a_type(api: Api) -> None:
    where = api.path("configmaps", "ssa")
    nobody = await api.patch(where, config_map("ssa"), APPLY)
    assert nobody.status == 422
    assert nobody.causes == [("fieldManager", "FieldValueRequired")]
    nameless = await applied(api, where, config_map(""), "x")
    assert nameless.status == 400
    typeless = await applied(api, where, {"data": {}}, "x")
    assert typeless.status == 400
    assert typeless.message == "invalid object type: /, Kind="


async def test_force_is_for_apply_only(api: Api) -> None:
    await api.made(api.path("configmaps"), config_map("a"))
    answer = await api.patch(api.path("configmaps", "a"), {}, query={"force": "true"})
    assert answer.status == 422
    assert answer.causes == [("force", "FieldValueForbidden")]


async def test_lists_with_keys_are_merged(api: Api, widgets: Widgets) -> None:
    def body(spec: dict[str, Any]) -> dict[str, Any]:
        meta = {"name": "s"}
        return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": meta, "spec": spec}

    where = widgets.path("s")
    first = await applied(api, where, body({"mode": "a", "items": [{"k": "1", "v": "a"}]}), "m1")
    assert first.status == 201, first.text
    assert owners(first)["m1"] == {
        "f:spec": {
            "f:items": {'k:{"k":"1"}': {".": {}, "f:k": {}, "f:v": {}}},
            "f:mode": {},
        }
    }
    second = await applied(api, where, body({"items": [{"k": "2", "v": "b"}]}), "m2")
    assert second.body["spec"]["items"] == [{"k": "1", "v": "a"}, {"k": "2", "v": "b"}]
    assert second.body["metadata"]["generation"] == 2
    conflict = await applied(api, where, body({"mode": "b"}), "m2")
    assert conflict.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.mode'


async def test_the_status_has_owners_of_its_own(api: Api, widgets: Widgets) -> None:
    await widgets.made("s")
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "status": {"phase": "Up"}}
    answer = await applied(api, widgets.path("s", "status"), body, "ctl")
    assert answer.status == 200, answer.text
    assert answer.body["status"] == {"phase": "Up"}
    entry = next(one for one in answer.body["metadata"]["managedFields"] if one["manager"] == "ctl")
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:phase": {}}}


async def test_updates_take_fields_over(api: Api) -> None:
    where = api.path("configmaps", "ssa")
    await applied(api, where, config_map("ssa", {"a": "1", "b": "1"}), "m1")
    patched = await api.patch(where, {"data": {"a": "9"}}, query={"fieldManager": "u"})
    assert owners(patched) == {"m1": {"f:data": {"f:b": {}}}, "u": {"f:data": {"f:a": {}}}}


async def test_applying_yaml_works(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ssa\ndata:\n  a: text\n"
    answer = await applied(api, api.path("configmaps", "ssa"), text, "m")
    assert (answer.status, answer.body["data"]) == (201, {"a": "text"})
