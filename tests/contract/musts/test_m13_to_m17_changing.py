"""M13 to M17: patches, server-side apply, custom resources, generations, deletion, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from support.contract import APPLY, JSON_PATCH, STRATEGIC, Widgets, config_map, pod, widget
from support.recording import Recording

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FINALIZER = "ex.com/f"


# ── M13: patches ─────────────────────────────────────────────────────────────────────────
async def test_m13_json_patches(recording: Recording) -> None:
    await recording.made(recording.path("configmaps"), config_map("a", {"k": "1", "l": "2"}))
    where = recording.path("configmaps", "a")
    for patch in (
        [{"op": "remove", "path": "/data/zzz"}],
        [{"op": "add", "path": "/nowhere/x", "value": "1"}],
        [{"op": "test", "path": "/data/k", "value": "2"}],
        [{"op": "replace", "path": "/data/missing", "value": "x"}],
        [{"op": "copy", "from": "/data/k", "path": "/data/copied"}],
        [{"op": "move", "from": "/data/l", "path": "/data/moved"}],
        [{"op": "move", "from": "/data/nothing", "path": "/data/moved"}],
        [{"op": "add", "path": "/metadata/labels", "value": {"a~b/c": "1"}}],
        [{"op": "replace", "path": "/data/k", "value": 7}],
        [{"op": "nonsense", "path": "/data/k"}],
        [{"op": "add", "path": "data/k", "value": "9"}],
        [{"op": "add", "value": "9"}],
        [{"op": "replace", "path": "", "value": {}}],
        [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}],
        {"op": "add"},
        "text",
        [],
        [{"op": "remove", "path": "/data"}],
        [{"op": "replace", "path": "/metadata/name", "value": "b"}],
        [{"op": "replace", "path": "/metadata/namespace", "value": "b"}],
        [{"op": "replace", "path": "/kind", "value": "Secret"}],
    ):
        await recording.patch(where, patch, JSON_PATCH)
    await recording.patch(where, b"{bad", JSON_PATCH)
    await recording.patch(recording.path("configmaps", "nope"), [], JSON_PATCH)


async def test_m13_merge_patches(recording: Recording) -> None:
    await recording.made(recording.path("configmaps"), config_map("a", {"k": "1", "l": "2"}))
    where = recording.path("configmaps", "a")
    for patch in (
        {"data": {"k": None, "m": "3"}},
        {"data": None},
        {"data": {"k": 1}},
        {"metadata": {"labels": {"x": "y"}, "annotations": {"a": "b"}}},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}},
        {"metadata": {"name": "b"}},
        {"metadata": {"creationTimestamp": None}},
        {"metadata": {"labels": None}},
        {"bogus": 1},
        {"kind": "Secret"},
        {"apiVersion": "v2"},
        [],
        "text",
        {},
    ):
        await recording.patch(where, patch)
    await recording.patch(where, b"{bad")
    await recording.patch(where, {"data": {"z": "1"}}, query={"force": "true"})
    await recording.patch(recording.path("configmaps", "nope"), {})


async def test_m13_strategic_patches(recording: Recording, recorded_widgets: Widgets) -> None:
    """On a CronJob that sleeps: no controller writes to it meanwhile."""
    containers: list[dict[str, Any]] = [
        {
            "name": "a",
            "image": "i:1",
            "env": [{"name": "X", "value": "1"}],
            "ports": [{"containerPort": 80}],
        },
        {"name": "b", "image": "i:1"},
    ]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    body = {
        "metadata": {"name": "d", "finalizers": [FINALIZER, "ex.com/g"]},
        "spec": {
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "jobTemplate": {"spec": {"template": template}},
        },
    }
    api = "/apis/batch/v1"
    await recording.made(recording.path("cronjobs", api=api), body)
    where = recording.path("cronjobs", "d", api=api)

    def in_template(spec: Any) -> dict[str, Any]:
        return {"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}

    for patch in (
        in_template({"containers": [{"name": "b", "image": "i:2"}]}),
        in_template({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}),
        in_template({"containers": [{"name": "a", "env": [{"name": "X", "$patch": "delete"}]}]}),
        in_template({"containers": [{"name": "a", "ports": [{"containerPort": 81}]}]}),
        in_template({"containers": [{"name": "c", "image": "i:3"}]}),
        in_template(
            {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}],
                "containers": [{"name": "c", "image": "i:4"}],
            }
        ),
        in_template({"containers": [{"name": "b", "$patch": "delete"}]}),
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["ex.com/g"]}},
        {"metadata": {"finalizers": ["ex.com/h"]}},
        in_template({"volumes": [{"name": "v", "emptyDir": {}}]}),
        in_template({"volumes": [{"name": "v", "emptyDir": None, "configMap": {"name": "c"}}]}),
        in_template({"containers": [{"image": "nameless"}]}),
        in_template({"containers": {"name": "a"}}),
        {"metadata": {"labels": {"x": "y"}}},
        in_template(
            {
                "$patch": "replace",
                "restartPolicy": "Never",
                "containers": [{"name": "z", "image": "z"}],
            }
        ),
    ):
        await recording.patch(where, patch, STRATEGIC)
    await recording.patch(where, {"metadata": {"finalizers": None}}, STRATEGIC)
    await recorded_widgets.made("w")
    await recording.patch(recorded_widgets.path("w"), {}, STRATEGIC)


async def test_m13_a_strategic_patch_keeps_the_named_keys_only(recording: Recording) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    where = recording.path("deployments", "d", api="/apis/apps/v1")
    async with recording.silent():
        await recording.made(where.removesuffix("/d"), {"metadata": {"name": "d"}, "spec": spec})
    for patch in (
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        {"spec": {"strategy": {"type": "RollingUpdate"}}},
    ):
        answer = await recording.patch(where, patch, STRATEGIC)
        recording.retell(answer.body["spec"])


# ── M14: server-side apply ───────────────────────────────────────────────────────────────
def data(**values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": values}


async def test_m14_apply_owns_conflicts_and_lets_go(recording: Recording) -> None:
    where = recording.path("configmaps", "ssa")

    async def apply(manager: str, body: Any, force: bool = False, **more: str) -> None:
        query = {"fieldManager": manager, **({"force": "true"} if force else {}), **more}
        await recording.patch(where, body, APPLY, query=query)

    await apply("m1", data(a="1", b="1"))
    await apply("m1", data(a="1", b="1"))
    await apply("m2", data(a="2", c="3"))
    await apply("m2", data(a="1", c="3"))
    await apply("m2", data(a="2", c="3"), force=True)
    await apply("m1", data(b="1"))
    await apply("m2", data(a="2"), force=True)
    await apply("m3", data(a="4", b="4"))
    await recording.patch(where, {"data": {"b": "9"}}, query={"fieldManager": "u1"})
    await apply("m1", data(b="1"))
    await apply("m1", data(b="9"))
    await apply("m1", data())
    await apply("m4", data(z="1"), dryRun="All")
    await apply("m4", data(z="1") | {"bogus": 1}, fieldValidation="Strict")
    await apply("m4", data(z="1") | {"bogus": 1})
    await apply("x", {"metadata": {"name": "ssa"}})
    await apply("x", data() | {"kind": "Secret"})
    await apply("x", data() | {"apiVersion": "v2"})
    await apply("x", data() | {"metadata": {"name": "other"}})
    await apply("x", data() | {"metadata": {"name": "ssa", "managedFields": [{"manager": "x"}]}})
    await apply("x", data() | {"metadata": {"name": "ssa", "resourceVersion": "1"}})
    await apply("x", data() | {"metadata": {"name": "ssa", "uid": "1"}})
    await apply("x" * 129, data())
    await recording.patch(where, data(), APPLY)
    await recording.patch(where, b"a: [", APPLY, query={"fieldManager": "x"})
    await recording.replace(where, data(q="1"), query={"fieldManager": "m1"})
    await recording.patch(where, {"metadata": {"managedFields": [{}]}})


async def test_m14_apply_on_lists_with_keys(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    where = recorded_widgets.path("s")

    def items(*pairs: tuple[str, str], **more: Any) -> dict[str, Any]:
        body = widget("s", items=[{"k": key, "v": value} for key, value in pairs], **more)
        del body["spec"]["mode"]
        body["spec"].update(more)
        return body

    async def apply(manager: str, body: Any, **more: str) -> None:
        await recording.patch(where, body, APPLY, query={"fieldManager": manager, **more})

    await apply("m1", items(("1", "a"), mode="a"))
    await apply("m2", items(("2", "b")))
    await apply("m2", items(("2", "b"), mode="b"))
    await apply("m2", items(("1", "x")))
    await apply("m2", items(("2", "c"), ("3", "d")))
    await apply("m1", items(mode="a"))
    await apply("m1", items(("9", "a"), ("9", "b"), mode="a"))
    await apply("m3", items(set=["x", "y"]))
    await apply("m4", items(set=["y", "z"]))
    await apply("m3", items(set=["x"]))
    status = {
        "apiVersion": "t.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "s"},
        "status": {"phase": "P"},
    }
    path = recorded_widgets.path("s", "status")
    await recording.patch(path, status, APPLY, query={"fieldManager": "ctl"})
    await recording.patch(path, status, APPLY, query={"fieldManager": "ctl"})
    await recording.patch(path, {"status": {"phase": "Q"}})
    await recording.patch(path, status, APPLY, query={"fieldManager": "ctl"})


async def test_m14_apply_on_pods_and_services(recording: Recording) -> None:
    async def apply(plural: str, body: Any, manager: str = "m1", **more: str) -> None:
        where = recording.path(plural, body["metadata"]["name"])
        await recording.patch(where, body, APPLY, query={"fieldManager": manager, **more})

    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"name": "p", "port": 80}]},
    }
    await apply("services", service)
    service["spec"]["ports"] = [{"name": "q", "port": 81}]  # type: ignore[index]
    await apply("services", service, "m2")
    await apply("services", service, "m1")
    body = pod(
        "p",
        containers=[{"name": "c", "image": "i:1", "env": [{"name": "A", "value": "1"}]}],
        schedulerName="nobody",  # so that no scheduler writes its status meanwhile
    )
    await apply("pods", body)
    body["spec"]["containers"] = [{"name": "c", "image": "i:2"}]
    await apply("pods", body, "m2")
    await apply("pods", body, "m2", force="true")


# ── M15: custom resources ────────────────────────────────────────────────────────────────
async def test_m15_creation_defaults_and_prunes(
    recording: Recording, recorded_widgets: Widgets
) -> None:
    body = widget("a", bogus=1, cpu=5, free={"x": {"y": 1}}, items=[{"k": "1", "zz": 2}], nul=None)
    await recording.create(recorded_widgets.path(), body | {"status": {"phase": "No"}})
    await recording.get(recorded_widgets.path("a"))
    await recording.create(
        recorded_widgets.path(), widget("b", bogus=1), query={"fieldValidation": "Strict"}
    )


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        (
            "many",
            {
                "mode": "z",
                "replicas": 11,
                "name": "toolong",
                "cpu": "x",
                "set": ["a", "a"],
                "items": [{"k": "1"}, {"k": "1"}],
            },
        ),
        ("types", {"replicas": "two"}),
        ("none", None),
        ("list", []),
        ("items", {"mode": "a", "items": [{"v": "1"}]}),
        ("nulls", {"mode": None, "replicas": None}),
        ("float", {"mode": "a", "replicas": 1.5}),
        ("text", {"mode": 7, "name": ["x"], "items": "x", "free": 1}),
    ],
)
async def test_m15_what_breaks_the_schema(
    recording: Recording, recorded_widgets: Widgets, name: str, spec: Any
) -> None:
    body = widget(name) | {"spec": spec}
    if spec is None:
        del body["spec"]
    await recording.create(recorded_widgets.path(), body)


async def test_m15_rules_see_the_old_value(recording: Recording, recorded_widgets: Widgets) -> None:
    await recorded_widgets.made("g", imm="1")
    await recording.patch(recorded_widgets.path("g"), {"spec": {"imm": "2"}})
    await recording.patch(recorded_widgets.path("g"), {"spec": {"replicas": 11, "imm": "2"}})
    await recording.patch(recorded_widgets.path("g"), {"spec": {"imm": None}})
    await recording.replace(recorded_widgets.path("g"), widget("g"))
    await recording.patch(recorded_widgets.path("g"), {"metadata": {"uid": "zzz"}})
    await recording.patch(recorded_widgets.path("g"), {"metadata": {"name": "b"}})
    await recording.patch(recorded_widgets.path("g"), {"apiVersion": "x/v1"})
    await recording.create(recorded_widgets.path(), widget("B_bad"))
    await recording.create(
        recorded_widgets.path(), widget("b") | {"apiVersion": "t.example.com/v2"}
    )
    await recording.get(recorded_widgets.path("zz"))


async def test_m15_definitions_are_checked(recording: Recording) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "as", "kind": "A"}

    def definition(name: str = "as.x.example.com", **spec: Any) -> dict[str, Any]:
        body = {
            "group": "x.example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        }
        return {"metadata": {"name": name}, "spec": {**body, **spec}}

    def with_schema(schema: Any) -> dict[str, Any]:
        return definition(versions=[{**version, "schema": {"openAPIV3Schema": schema}}])

    for body in (
        definition("x.y"),
        definition(versions=[]),
        definition(scope="Elsewhere"),
        definition(versions=[{**version, "storage": False}]),
        definition(versions=[version, {**version, "name": "v2"}]),
        definition(versions=[version, {**version, "storage": False}]),
        definition(versions=[{**version, "name": "Bad!"}]),
        definition(versions=[{"name": "v1", "served": True, "storage": True}]),
        definition(names={"plural": "as"}),
        definition(names={"plural": "As", "kind": "A"}),
        definition(group=""),
        with_schema({"properties": {"spec": {}}}),
        with_schema({"type": "object", "properties": {"spec": {"properties": {"a": {}}}}}),
        with_schema({"type": "object", "properties": {"a": {"type": "nonsense"}}}),
        with_schema({"type": "object", "properties": {"a": {"type": "array"}}}),
        with_schema({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
        with_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
        with_schema(
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "x-kubernetes-validations": [{"rule": "self.b"}]}
                },
            }
        ),
        with_schema(
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "array",
                        "items": {"type": "object"},
                        "x-kubernetes-list-type": "map",
                    }
                },
            }
        ),
        with_schema(
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "properties": {"a": {"type": "string"}},
            }
        ),
    ):
        await recording.create(DEFINITIONS, body)


# ── M16: generations ─────────────────────────────────────────────────────────────────────
async def test_m16_generations(recording: Recording, recorded_widgets: Widgets) -> None:
    made = await recorded_widgets.made("g", replicas=1)
    where, status = recorded_widgets.path("g"), recorded_widgets.path("g", "status")
    await recording.patch(where, {"metadata": {"labels": {"a": "b"}}})
    await recording.patch(where, {"spec": {"replicas": 2}})
    await recording.patch(where, {"status": {"phase": "No"}})
    await recording.patch(
        status,
        {"status": {"phase": "Yes"}, "spec": {"replicas": 9}, "metadata": {"labels": {"c": "d"}}},
    )
    await recording.patch(where, {"spec": {"replicas": 2}})
    await recording.patch(where, {"bogus": 1})
    now = (await recording.get(where)).body
    await recording.replace(where, now | {"metadata": now["metadata"] | {"generation": 99}})
    await recording.replace(
        where, now | {"metadata": now["metadata"] | {"creationTimestamp": "2020-01-01T00:00:00Z"}}
    )
    await recording.replace(status, now | {"status": {"phase": "Again"}, "spec": {"mode": "b"}})
    await recording.replace(status, made)
    await recording.get(status)
    await recording.patch(where, {"metadata": {"finalizers": [FINALIZER]}})
    await recording.delete(where)
    await recording.patch(where, {"spec": {"replicas": 3}})
    await recording.patch(where, {"metadata": {"finalizers": None}})
    await recording.get(where)


async def test_m16_generations_of_built_in_kinds(recording: Recording) -> None:
    api = "/apis/apps/v1"
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    rs = recording.path("replicasets", api=api)
    async with recording.silent():
        await recording.made(rs, {"metadata": {"name": "r"}, "spec": spec})
    for patch in ({"metadata": {"labels": {"x": "y"}}}, {"spec": {"minReadySeconds": 1}}, {}):
        async with recording.silent():  # the controller may write its status in between
            answer = await recording.patch(f"{rs}/r", patch)
        assert answer.status == 200
        assert answer.body["metadata"]["generation"] == (2 if "spec" in patch or not patch else 1)
    await recording.made(recording.path("configmaps"), config_map("c", generation=7))


# ── M17: deletion ────────────────────────────────────────────────────────────────────────
async def test_m17_finalizers_and_answers(recording: Recording) -> None:
    where = recording.path("configmaps", "fin")
    await recording.made(recording.path("configmaps"), config_map("fin", finalizers=[FINALIZER]))
    await recording.delete(where)
    await recording.delete(where)
    await recording.patch(where, {"metadata": {"finalizers": [FINALIZER, "ex.com/g"]}})
    await recording.patch(where, {"metadata": {"labels": {"a": "b"}}})
    await recording.replace(where, config_map("fin"))
    await recording.get(where)
    await recording.made(recording.path("configmaps"), config_map("d1"))
    where = recording.path("configmaps", "d1")
    await recording.delete(where, {"preconditions": {"uid": "x"}})
    await recording.delete(where, {"preconditions": {"resourceVersion": "1"}})
    await recording.delete(where, {"propagationPolicy": "Nope"})
    await recording.delete(where, {"propagationPolicy": "Background", "orphanDependents": True})
    await recording.delete(where, {"dryRun": ["All"]})
    await recording.delete(where, query={"dryRun": "All"})
    await recording.delete(where, query={"propagationPolicy": "Nope"})
    await recording.delete(where, {"gracePeriodSeconds": "x"})
    await recording.delete(where, {"kind": "Nonsense", "apiVersion": "v1"})
    await recording.delete(where, {"kind": "DeleteOptions", "apiVersion": "v1"})
    await recording.delete(where)
    await recording.delete(recording.path("configmaps"), query={"labelSelector": "nothing=here"})


async def test_m17_collections(recording: Recording) -> None:
    for index in range(3):
        meta = {"labels": {"dc": str(index % 2)}}
        await recording.made(
            recording.path("secrets"), {"metadata": {"name": f"dc{index}", **meta}}
        )
    await recording.delete(
        recording.path("secrets"), query={"labelSelector": "dc=0", "dryRun": "All"}
    )
    await recording.delete(recording.path("secrets"), query={"labelSelector": "dc=0"})
    await recording.get(recording.path("secrets"))
    await recording.delete(recording.path("secrets"), query={"fieldSelector": "metadata.name=dc1"})
    await recording.get(recording.path("secrets"))
    await recording.delete(recording.path("services"))


async def test_m17_pods_are_given_time(recording: Recording) -> None:
    await recording.made(recording.path("pods"), pod("loose", schedulerName="nobody"))
    await recording.delete(recording.path("pods", "loose"))
    await recording.get(recording.path("pods", "loose"))
    await recording.made(recording.path("pods"), pod("p", nodeName="n1"))
    where = recording.path("pods", "p")
    await recording.delete(where)
    await recording.delete(where, {"gracePeriodSeconds": 10})
    await recording.delete(where, {"gracePeriodSeconds": 20})
    await recording.delete(where, {"gracePeriodSeconds": -5})
    await recording.delete(where, query={"gracePeriodSeconds": "0"})
    await recording.get(where)
    await recording.made(
        recording.path("pods"), pod("q", nodeName="n1", terminationGracePeriodSeconds=0)
    )
    await recording.delete(recording.path("pods", "q"))
    await recording.get(recording.path("pods", "q"))
    await recording.made(recording.path("pods"), pod("r", nodeName="n1"))
    await recording.patch(recording.path("pods", "r", "status"), {"status": {"phase": "Succeeded"}})
    await recording.delete(recording.path("pods", "r"))
    await recording.get(recording.path("pods", "r"))
