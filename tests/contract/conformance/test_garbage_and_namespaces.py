"""Garbage collector (7) and namespaces (7).

Upstream asks with ReplicationControllers; here ReplicaSets stand for them: the intent is the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

from support.cluster_api import eventually
from support.contract import Api, config_map, pod

APPS = "/apis/apps/v1"
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"},
}


def workload(name: str, replicas: int) -> dict[str, Any]:
    selector = {"matchLabels": {"a": "b"}}
    spec = {"replicas": replicas, "selector": selector, "template": TEMPLATE}
    return {"metadata": {"name": name}, "spec": spec}


async def names(api: Api, plural: str, api_path: str = "/api/v1") -> list[str]:
    items = (await api.get(api.path(plural, api=api_path))).body["items"]
    return [one["metadata"]["name"] for one in items]


async def counted(api: Api, count: int, plural: str = "pods", of: str = "/api/v1") -> list[str]:
    async def found() -> list[str] | None:
        seen = await names(api, plural, of)
        return seen or [""] if len(seen) == count else None

    return await eventually(found) or []


# ── garbage ──────────────────────────────────────────────────────────────────────────────
async def test_garbage_pods_go_with_their_owner_when_not_orphaning(cluster: Api) -> None:
    where = cluster.path("replicasets", api=APPS)
    await cluster.made(where, workload("r", 2))
    await counted(cluster, 2)
    await cluster.delete(f"{where}/r", {"propagationPolicy": "Background"})
    await counted(cluster, 0)


async def test_garbage_pods_are_orphaned_if_the_options_say_so(cluster: Api) -> None:
    where = cluster.path("replicasets", api=APPS)
    await cluster.made(where, workload("r", 2))
    await counted(cluster, 2)
    await cluster.delete(f"{where}/r", {"propagationPolicy": "Orphan"})
    await cluster.until_gone(f"{where}/r")
    await asyncio.sleep(0.5)
    for one in (await cluster.get(cluster.path("pods"))).body["items"]:
        assert "ownerReferences" not in one["metadata"]
    await counted(cluster, 2)


async def test_garbage_replica_sets_go_with_their_deployment(cluster: Api) -> None:
    where = cluster.path("deployments", api=APPS)
    await cluster.made(where, workload("d", 1))
    await counted(cluster, 1, "replicasets", APPS)
    await counted(cluster, 1)
    await cluster.delete(f"{where}/d", {"propagationPolicy": "Background"})
    await counted(cluster, 0, "replicasets", APPS)
    await counted(cluster, 0)


async def test_garbage_replica_sets_are_orphaned_by_their_deployment(cluster: Api) -> None:
    where = cluster.path("deployments", api=APPS)
    await cluster.made(where, workload("d", 1))
    await counted(cluster, 1, "replicasets", APPS)
    await counted(cluster, 1)
    await cluster.delete(f"{where}/d", {"propagationPolicy": "Orphan"})
    await cluster.until_gone(f"{where}/d")
    await asyncio.sleep(0.5)
    [left] = (await cluster.get(cluster.path("replicasets", api=APPS))).body["items"]
    assert "ownerReferences" not in left["metadata"]


async def test_garbage_an_owner_stays_until_all_its_pods_are_deleted(cluster: Api) -> None:
    where = cluster.path("replicasets", api=APPS)
    await cluster.made(where, workload("r", 3))
    held, *_ = await counted(cluster, 3)
    path = cluster.path("pods", held)
    await cluster.patch(path, {"metadata": {"finalizers": ["ex.com/hold"]}})
    await cluster.delete(f"{where}/r", {"propagationPolicy": "Foreground"})
    await counted(cluster, 1)
    assert (await cluster.get(f"{where}/r")).status == 200
    await cluster.patch(path, {"metadata": {"finalizers": None}})
    await cluster.until_gone(f"{where}/r")


def owned_by(*owners: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for one in owners
    ]


async def test_garbage_with_another_valid_owner_stays_when_one_waits(cluster: Api) -> None:
    where = cluster.path("configmaps")
    dying = await cluster.made(where, config_map("dying"))
    staying = await cluster.made(where, config_map("staying"))
    both, one = owned_by(dying, staying), owned_by(dying)
    await cluster.made(where, config_map("shared", ownerReferences=both))
    await cluster.made(where, config_map("only", ownerReferences=one))
    await cluster.delete(f"{where}/dying", {"propagationPolicy": "Foreground"})
    await cluster.until_gone(f"{where}/dying")
    await cluster.until_gone(f"{where}/only")

    async def left() -> bool:
        shared = (await cluster.get(f"{where}/shared")).body["metadata"]
        return [ref["name"] for ref in shared["ownerReferences"]] == ["staying"]

    await eventually(left)


async def test_garbage_is_not_blocked_by_a_circle(cluster: Api) -> None:
    where = cluster.path("configmaps")
    made = [await cluster.made(where, config_map(name)) for name in ("p1", "p2", "p3")]
    for number, one in enumerate(made):
        refs = owned_by(made[number - 1])
        await cluster.patch(
            f"{where}/{one['metadata']['name']}", {"metadata": {"ownerReferences": refs}}
        )
    await cluster.delete(f"{where}/p1", {"propagationPolicy": "Foreground"})
    for name in ("p1", "p2", "p3"):
        await cluster.until_gone(f"{where}/{name}")


# ── namespaces ───────────────────────────────────────────────────────────────────────────
async def fresh(api: Api, suffix: str) -> str:
    name = f"{api.namespace}-{suffix}"
    await api.made("/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"

    async def complete() -> bool:
        return (await api.get(account)).status == 200

    await eventually(complete)
    return f"/api/v1/namespaces/{name}"


async def test_namespaces_take_their_pods_with_them(cluster: Api) -> None:
    inside = await fresh(cluster, "a")
    await cluster.made(f"{inside}/pods", pod("p", schedulerName="nobody"))
    await cluster.delete(inside)
    await cluster.until_gone(inside)
    await fresh(cluster, "a")
    assert (await cluster.get(f"{inside}/pods/p")).status == 404
    await cluster.delete(inside)


async def test_namespaces_take_their_services_with_them(cluster: Api) -> None:
    inside = await fresh(cluster, "b")
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    await cluster.made(f"{inside}/services", body)
    await cluster.delete(inside)
    await cluster.until_gone(inside)
    await fresh(cluster, "b")
    assert (await cluster.get(f"{inside}/services/s")).status == 404
    await cluster.delete(inside)


async def test_namespaces_can_be_patched(cluster: Api) -> None:
    where = f"/api/v1/namespaces/{cluster.namespace}"
    answer = await cluster.patch(where, {"metadata": {"labels": {"testLabel": "testValue"}}})
    assert answer.status == 200
    assert answer.body["metadata"]["labels"]["testLabel"] == "testValue"
    assert (await cluster.get(where)).body["metadata"]["labels"]["testLabel"] == "testValue"


async def test_namespaces_have_a_status_of_their_own(cluster: Api) -> None:
    where = f"/api/v1/namespaces/{cluster.namespace}"
    condition = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "patched"}
    answer = await cluster.patch(f"{where}/status", {"status": {"conditions": [condition]}})
    assert [one["type"] for one in answer.body["status"]["conditions"]] == ["StatusPatch"]
    body = (await cluster.get(f"{where}/status")).body
    body["status"]["conditions"].append(condition | {"type": "StatusUpdate"})
    answer = await cluster.replace(f"{where}/status", body)
    kinds = [one["type"] for one in answer.body["status"]["conditions"]]
    assert kinds == ["StatusPatch", "StatusUpdate"]
    assert answer.body["status"]["phase"] == "Active"


async def test_namespaces_can_be_updated(cluster: Api) -> None:
    where = f"/api/v1/namespaces/{cluster.namespace}"
    body = (await cluster.get(where)).body
    body["metadata"].setdefault("labels", {})[cluster.namespace] = "updated"
    answer = await cluster.replace(where, body)
    assert answer.body["metadata"]["labels"][cluster.namespace] == "updated"


async def test_namespaces_wait_for_a_finalizer_of_their_own(cluster: Api) -> None:
    inside = await fresh(cluster, "f")
    body = (await cluster.get(inside)).body
    body["spec"]["finalizers"] = ["ex.com/f", *body["spec"]["finalizers"]]
    answer = await cluster.replace(f"{inside}/finalize", body)
    assert answer.status == 200, answer.text
    assert answer.body["spec"]["finalizers"] == ["ex.com/f", "kubernetes"]
    await cluster.delete(inside)

    async def waits() -> bool:
        found = (await cluster.get(inside)).body
        return bool(found["spec"].get("finalizers") == ["ex.com/f"])

    await eventually(waits)
    body = (await cluster.get(inside)).body
    body["spec"]["finalizers"] = []
    assert (await cluster.replace(f"{inside}/finalize", body)).status == 200
    await cluster.until_gone(inside)


async def test_namespaces_delete_their_pods_first(cluster: Api) -> None:
    inside = await fresh(cluster, "o")
    held = pod("held", schedulerName="nobody")
    held["metadata"]["finalizers"] = ["ex.com/f"]
    await cluster.made(f"{inside}/pods", held)
    await cluster.made(f"{inside}/configmaps", config_map("later"))
    await cluster.delete(inside)

    async def dying() -> bool:
        meta = (await cluster.get(f"{inside}/pods/held")).body["metadata"]
        return "deletionTimestamp" in meta

    await eventually(dying)
    await asyncio.sleep(0.5)
    later = await cluster.get(f"{inside}/configmaps/later")
    assert later.status == 200
    assert "deletionTimestamp" not in later.body["metadata"]
    await cluster.patch(f"{inside}/pods/held", {"metadata": {"finalizers": None}})
    await cluster.until_gone(inside)
