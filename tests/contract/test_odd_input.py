"""What `tests/fuzz --compare` found: odd input is refused, or taken, as the real server does.

Every answer is on record (`recorded/`): a status, and all of its words.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.contract import GROUP, STRATEGIC, TABLE, Api, Widgets, config_map, pod
from support.recording import Recording

DRY = {"dryRun": "All"}
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
CONTAINER = {"name": "c", "image": "i"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVENTS = "/apis/events.k8s.io/v1"
PODS = {"verb": "get", "resource": "pods"}
ABOUT = {"kind": "Pod", "name": "p", "namespace": "NS"}
WORDS = {"reason": "R", "action": "a", "reportingInstance": "i", "type": "Normal"}
NEW = {**WORDS, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "ex.com/c"}

ODD: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "controllerrevision": ("/apis/apps/v1", "controllerrevisions", [
        {},
        {"data": None},
        {"data": {"a": "b"}, "revision": -1},
        {"data": {"a": "b"}, "revision": 1},
    ]),
    "replicationcontroller": ("/api/v1", "replicationcontrollers", [
        {"spec": {}},
        {"spec": {"selector": {"a": "c"}, "template": TEMPLATE, "replicas": -1, "minReadySeconds": -1}},
        {"spec": {"selector": {"a": "b"}, "template": {**TEMPLATE, "spec": {"containers": [CONTAINER], "restartPolicy": "Never", "activeDeadlineSeconds": 5}}}},
        {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
        {"spec": {"template": TEMPLATE}},
    ]),
    "podtemplate": ("/api/v1", "podtemplates", [
        {"template": {"spec": {"containers": []}}},
        {"template": {"spec": {"containers": [{"name": "A"}]}}},
        {"template": TEMPLATE},
    ]),
    "endpoints": ("/api/v1", "endpoints", [
        {"subsets": [{"addresses": [], "ports": [{"port": 80}]}]},
        {"subsets": [{"addresses": [{"ip": "10.1.2.3", "hostname": "A_", "nodeName": "B_"}], "ports": [{"port": 0}, {"port": 70000, "name": "X_", "protocol": "Nope"}]}]},
        {"subsets": [{"notReadyAddresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80, "appProtocol": "a/b/c"}]}]},
    ]),
    "endpointslice": ("/apis/discovery.k8s.io/v1", "endpointslices", [
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"], "nodeName": "A_", "hostname": "B_"}]},
        {"addressType": "IPv4", "endpoints": [], "ports": [{"name": "a"}, {"name": "X_"}]},
        {"addressType": "FQDN", "endpoints": [{"addresses": ["A_"]}]},
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"], "hints": {"forZones": [{"name": "a b"}]}}]},
    ]),
    "event": ("/api/v1", "events", [
        {**WORDS, "involvedObject": ABOUT, "eventTime": "2026-01-01T00:00:00.000000Z"},
        {"involvedObject": ABOUT, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "ex.com/c"},
        {"involvedObject": {**ABOUT, "namespace": "other"}},
    ]),
    "new-event": (EVENTS, "events", [
        {"regarding": ABOUT},
        {**NEW, "regarding": ABOUT, "type": "Odd", "series": {"count": 1}},
        {**NEW, "regarding": ABOUT, "deprecatedCount": 2, "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"},
        {**NEW, "regarding": ABOUT, "reason": "r" * 129, "note": "n" * 1025},
    ]),
}  # fmt: skip
WIDE: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "runtimeclass": ("/apis/node.k8s.io/v1/runtimeclasses", [
        {},
        {"handler": "A_"},
        {"handler": "runc", "scheduling": {"nodeSelector": {"a": "b c"}, "tolerations": [{"operator": "Nope", "key": "k"}]}},
        {"handler": "runc"},
    ]),
    "ingressclass": ("/apis/networking.k8s.io/v1/ingressclasses", [
        {"spec": {}},
        {"spec": {"controller": "no-path"}},
        {"spec": {"controller": "EX.com/<x>"}},
        {"spec": {"controller": "ex.com/" + "c" * 250}},
        {"spec": {"controller": "ex.com/c", "parameters": {"kind": "a/b"}}},
        {"spec": {"controller": "ex.com/c", "parameters": {"kind": "K", "name": "..", "scope": "Namespace"}}},
        {"spec": {"controller": "ex.com/c", "parameters": {"kind": "K", "name": "n", "scope": "Cluster", "namespace": "x"}}},
        {"spec": {"controller": "ex.com/c"}},
    ]),
    "storageclass": ("/apis/storage.k8s.io/v1/storageclasses", [
        {},
        {"provisioner": "a/b/c", "reclaimPolicy": "Nope", "volumeBindingMode": "Nope"},
        {"provisioner": "ex.com/p", "parameters": {"": "x"}},
    ]),
    "persistentvolume": ("/api/v1/persistentvolumes", [
        {},
        {"spec": {"accessModes": ["Nope"], "capacity": {"storage": "0", "cpu": "1"}, "hostPath": {"path": "/x/../y"}, "persistentVolumeReclaimPolicy": "Nope", "volumeMode": "Nope"}},
        {"spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}, "nfs": {"server": "s", "path": "/x"}, "persistentVolumeReclaimPolicy": "Recycle"}},
        {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"}, "storageClassName": "A_"}},
        {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nfs": {"path": "x"}, "nodeAffinity": {}}},
        {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": {"driver": "d"}}},
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ODD))
async def test_odd_objects_of_a_namespace(recording: Recording, name: str) -> None:
    api, plural, bodies = ODD[name]
    for body in bodies:
        about = {
            k: {**v, "namespace": recording.namespace} if v is ABOUT else v for k, v in body.items()
        }
        where = recording.path(plural, api=api)
        await recording.create(where, {"metadata": {"name": "odd"}, **about}, query=DRY)


@pytest.mark.parametrize("name", list(WIDE))
async def test_odd_objects_of_the_cluster(recording: Recording, name: str) -> None:
    where, bodies = WIDE[name]
    for body in bodies:
        await recording.create(where, {"metadata": {"name": "odd"}, **body}, query=DRY)


async def test_what_never_changes(recording: Recording) -> None:
    for api, plural, body, change in (
        ("/apis/apps/v1", "controllerrevisions", {"data": {"a": "b"}}, {"data": {"a": "c"}}),
        ("/api/v1", "replicationcontrollers", {"spec": {"template": TEMPLATE}}, {"spec": {"selector": {"x": "y"}}}),
        (EVENTS, "events", {**NEW, "regarding": {**ABOUT, "namespace": recording.namespace}, "note": "n"}, {"note": "m", "action": "b"}),
        ("/api/v1", "endpoints", {"subsets": [{"addresses": [{"ip": "10.1.2.3"}]}]}, {"subsets": [{"addresses": []}]}),
    ):  # fmt: skip
        async with recording.silent():
            await recording.made(
                recording.path(plural, api=api), {"metadata": {"name": "a"}, **body}
            )
        await recording.patch(recording.path(plural, "a", api=api), change)


async def test_questions_have_no_metadata(recording: Recording) -> None:
    named = {"metadata": {"name": "a", "labels": {"x": "y"}, "uid": "u"}}
    here = {**PODS, "namespace": recording.namespace}
    local = recording.path("localsubjectaccessreviews", api=AUTHORIZATION)
    mine = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    await recording.create(mine, {**named, "spec": {"resourceAttributes": PODS}})
    theirs = {**named, "spec": {"user": "u", "resourceAttributes": PODS}}
    await recording.create(f"{AUTHORIZATION}/subjectaccessreviews", theirs)
    await recording.create(local, {**named, "spec": {"user": "u", "resourceAttributes": here}})
    elsewhere = {"user": "u", "resourceAttributes": PODS, "nonResourceAttributes": {"path": "/x"}}
    await recording.create(local, {"spec": elsewhere})
    await recording.create(mine, {"spec": {"resourceAttributes": {}}})
    both = {"resourceAttributes": PODS, "nonResourceAttributes": {"path": "/x", "verb": "get"}}
    await recording.create(mine, {"spec": both})
    selecting = {**PODS, "fieldSelector": {}, "labelSelector": {"rawSelector": "a", "requirements": [{"key": "a", "operator": "Exists"}]}}  # fmt: skip
    await recording.create(mine, {"spec": {"resourceAttributes": selecting}})


async def test_questions_are_read_as_strictly_as_objects(recording: Recording) -> None:
    rules = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    await recording.create(rules, {"spec": {}})
    await recording.create(rules, {"spec": {"namespace": "x"}}, query={"fieldManager": "\n"})
    me = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    await recording.create(
        me, {"spec": {}, "metadata": {"odd": 1}}, query={"fieldValidation": "Strict"}
    )
    await recording.create(me, {}, query={"dryRun": "Some"})
    await recording.create(me, {}, accept=PARTIAL)
    mine = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    await recording.create(f"{mine}/name", {"spec": {"resourceAttributes": PODS}})
    await recording.create(mine, {"spec": {"resourceAttributes": PODS}}, accept=PARTIAL)


async def test_field_managers_are_printable(recording: Recording) -> None:
    for manager in ("\n", "ä\u200b", "x" * 129):
        query = {"fieldManager": manager, **DRY}
        await recording.create(recording.path("configmaps"), config_map("a"), query=query)


async def test_a_binding_names_its_pod(recording: Recording) -> None:
    async with recording.silent():
        await recording.made(recording.path("pods"), pod("a"))
        await recording.made(recording.path("pods"), pod("b"))
    where = recording.path("bindings")
    node = {"target": {"kind": "Node", "name": "n"}}
    await recording.create(where, {"metadata": {"name": "none"}, **node})
    await recording.create(where, node)
    await recording.create(where, {"metadata": {"name": "a"}, "target": {"kind": "Pod"}})
    await recording.create(
        recording.path("pods", "a", "binding"), {"metadata": {"name": "b"}, **node}
    )
    await recording.create(where, {"metadata": {"name": "a"}, **node})
    await recording.create(where, {"metadata": {"name": "a"}, **node})
    await recording.create("/api/v1/bindings", {"metadata": {"name": "a"}, **node})


async def test_a_binding_is_read_before_it_is_looked_for(api: Api) -> None:
    where, target = api.path("bindings"), {"kind": "Node", "name": "n"}
    assert (await api.create(where, {"metadata": None})).status == 500
    table = await api.create(where, {"metadata": {"name": "a"}, "target": target}, accept=TABLE)
    assert table.status == 406


async def test_some_kinds_are_made_by_a_replacement(recording: Recording) -> None:
    about = {**ABOUT, "namespace": recording.namespace}
    for api, plural, body in (
        ("/api/v1", "limitranges", {"spec": {"limits": []}}),
        ("/api/v1", "endpoints", {}),
        ("/api/v1", "events", {"involvedObject": about}),
        (RBAC, "roles", {"rules": []}),
        ("/apis/coordination.k8s.io/v1", "leases", {"spec": {}}),
        ("/api/v1", "secrets", {}),
    ):
        where = recording.path(plural, "made", api=api)
        await recording.replace(where, {"metadata": {"name": "other"}, **body})
        await recording.replace(where, {"metadata": {"name": "made", "uid": "u"}, **body})
        answer = await recording.replace(where, {"metadata": {"name": "made"}, **body})
        recording.retell(answer.status)
        answer = await recording.replace(where, {"metadata": {"name": "made"}, **body})
        recording.retell(answer.body.get("message", ""))


async def test_a_strategic_patch_may_name_another_type(recording: Recording) -> None:
    async with recording.silent():
        await recording.made(recording.path("configmaps"), config_map("a"))
    body = {"apiVersion": "odd/v9", "kind": "Odd", "data": {"k": "2"}}
    answer = await recording.patch(recording.path("configmaps", "a"), body, STRATEGIC)
    recording.retell([answer.body["kind"], answer.body["apiVersion"], answer.body["data"]])
    await recording.patch(recording.path("configmaps", "a"), body)


async def test_objects_have_no_head(api: Api) -> None:
    for path in (api.path("configmaps"), api.path("configmaps", "none")):
        assert (await api.request("HEAD", path)).status == 405


async def test_there_is_no_stream_of_yaml(api: Api) -> None:
    watch = {"watch": "true", "timeoutSeconds": "1"}
    where = api.path("configmaps")
    assert (await api.get(where, query=watch, accept="application/yaml")).status == 406
    both = "application/yaml,application/json"
    assert (await api.get(where, query=watch, accept=both)).status == 406
    other = "application/json,application/yaml"
    assert (await api.get(where, query=watch, accept=other)).status == 200


async def test_a_field_selector_may_say_nothing(api: Api) -> None:
    for selector in ("=", "==", "!=", ",="):
        answer = await api.get(api.path("secrets"), query={"fieldSelector": selector})
        assert answer.status == 200


async def test_the_metadata_of_another_kind_may_be_anything(api: Api, widgets: Widgets) -> None:
    """Of metadata that is text, a name was read: 500."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Odd", "metadata": "text", "spec": {}}
    answer = await api.create(widgets.path(), body)
    assert answer.status in (400, 422), answer.text


async def test_delete_options_may_leave_out_their_kind(recording: Recording) -> None:
    options = {"kind": None, "apiVersion": "v1"}
    answer = await recording.delete(recording.path("secrets"), options)
    recording.retell(answer.status)


async def test_labels_without_a_value_are_empty(recording: Recording) -> None:
    body = {"metadata": {"name": "a", "labels": {"x": None}, "annotations": {"y": None}}}
    await recording.create(recording.path("configmaps"), body, query=DRY)


async def test_a_namespace_may_be_deleted_twice(api: Api) -> None:
    """The content is being removed: the second answer was a conflict."""
    name = f"{api.namespace}-twice"
    await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
    first = await api.delete(f"/api/v1/namespaces/{name}")
    second = await api.delete(f"/api/v1/namespaces/{name}")
    assert (first.status, second.status) == (200, 200)


async def test_a_strategic_patch_of_nothing_changes_nothing(api: Api) -> None:
    made = await api.made(api.path("configmaps"), config_map("a"))
    same = await api.patch(api.path("configmaps", "a"), b"null", STRATEGIC)
    assert (same.status, same.version) == (200, made["metadata"]["resourceVersion"])
    odd = await api.patch(api.path("configmaps", "a"), {"apiVersion": 1e30}, STRATEGIC)
    assert odd.status == 422
