"""M18, M19 and M25 to M28: garbage, namespaces, quotas, controllers, limits, durability."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.cluster_api import eventually
from support.contract import Api, config_map, pod
from support.recording import Recording

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


async def owner(api: Api, name: str, **meta: Any) -> dict[str, Any]:
    return await api.made(api.path("configmaps"), config_map(name, **meta))


def owned_by(*owners: dict[str, Any], block: bool | None = None) -> list[dict[str, Any]]:
    more = {} if block is None else {"blockOwnerDeletion": block}
    return [
        {**CONFIG_MAP, "name": one["metadata"]["name"], "uid": one["metadata"]["uid"], **more}
        for one in owners
    ]


async def gone(api: Api, name: str, plural: str = "configmaps") -> None:
    await eventually(lambda: _is_gone(api, api.path(plural, name)))


async def _is_gone(api: Api, path: str) -> bool:
    return (await api.get(path)).status == 404


# ── M18: garbage collection ──────────────────────────────────────────────────────────────
async def test_m18_children_go_in_the_background(cluster: Api) -> None:
    parent = await owner(cluster, "o1")
    await owner(cluster, "c1", ownerReferences=owned_by(parent))
    assert (await cluster.delete(cluster.path("configmaps", "o1"))).status == 200
    assert (await cluster.get(cluster.path("configmaps", "o1"))).status == 404
    await gone(cluster, "c1")


async def test_m18_in_the_foreground_children_that_block_go_first(cluster: Api) -> None:
    parent = await owner(cluster, "o2")
    refs = owned_by(parent, block=True)
    await owner(cluster, "c2", ownerReferences=refs, finalizers=["ex.com/f"])
    where = cluster.path("configmaps", "o2")
    answer = await cluster.delete(where, {"propagationPolicy": "Foreground"})
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def dying() -> bool:
        body = (await cluster.get(cluster.path("configmaps", "c2"))).body
        return "deletionTimestamp" in body["metadata"]

    await eventually(dying)
    await asyncio.sleep(0.3)
    assert (await cluster.get(where)).status == 200
    await cluster.patch(cluster.path("configmaps", "c2"), {"metadata": {"finalizers": None}})
    await gone(cluster, "c2")
    await gone(cluster, "o2")


async def test_m18_in_the_foreground_other_children_do_not_block(cluster: Api) -> None:
    parent = await owner(cluster, "o2b")
    await owner(cluster, "c2b", ownerReferences=owned_by(parent), finalizers=["ex.com/f"])
    where = cluster.path("configmaps", "o2b")
    await cluster.delete(where, {"propagationPolicy": "Foreground"})
    await gone(cluster, "o2b")
    await cluster.patch(cluster.path("configmaps", "c2b"), {"metadata": {"finalizers": None}})
    await gone(cluster, "c2b")


async def test_m18_orphans_lose_their_reference(cluster: Api) -> None:
    parent = await owner(cluster, "o3")
    await owner(cluster, "c3", ownerReferences=owned_by(parent))
    where = cluster.path("configmaps", "o3")
    answer = await cluster.delete(where, query={"propagationPolicy": "Orphan"})
    assert answer.body["metadata"]["finalizers"] == ["orphan"]
    await gone(cluster, "o3")
    child = (await cluster.get(cluster.path("configmaps", "c3"))).body
    assert "ownerReferences" not in child["metadata"]


async def test_m18_a_child_with_another_owner_stays(cluster: Api) -> None:
    first, second = await owner(cluster, "o4"), await owner(cluster, "o5")
    await owner(cluster, "c4", ownerReferences=owned_by(first, second))
    await cluster.delete(cluster.path("configmaps", "o4"))

    async def left() -> bool:
        child = (await cluster.get(cluster.path("configmaps", "c4"))).body
        return [one["name"] for one in child["metadata"]["ownerReferences"]] == ["o5"]

    await eventually(left)


async def test_m18_a_child_of_an_owner_that_never_was_goes(cluster: Api) -> None:
    ref = {**CONFIG_MAP, "name": "never", "uid": "11111111-2222-3333-4444-555555555555"}
    await owner(cluster, "c6", ownerReferences=[ref])
    await gone(cluster, "c6")


async def test_m18_an_owner_of_the_same_name_but_another_uid_is_none(cluster: Api) -> None:
    await owner(cluster, "o7")
    ref = {**CONFIG_MAP, "name": "o7", "uid": "11111111-2222-3333-4444-555555555555"}
    await owner(cluster, "c7", ownerReferences=[ref])
    await gone(cluster, "c7")
    assert (await cluster.get(cluster.path("configmaps", "o7"))).status == 200


async def test_m18_an_owner_elsewhere_is_none_and_an_event_says_so(cluster: Api) -> None:
    elsewhere = "/api/v1/namespaces/default/configmaps"
    name = f"ox-{cluster.namespace}"
    parent = await cluster.made(elsewhere, config_map(name))
    child = await owner(cluster, "c8", ownerReferences=owned_by(parent))
    await gone(cluster, "c8")
    uid = child["metadata"]["uid"]

    async def reported() -> list[dict[str, Any]]:
        query = {"fieldSelector": f"involvedObject.uid={uid}"}
        items: list[dict[str, Any]] = (await cluster.get(cluster.path("events"), query=query)).body[
            "items"
        ]
        return items

    [event] = await eventually(reported)
    assert event["reason"] == "OwnerRefInvalidNamespace"
    assert event["message"] == (
        f"ownerRef [v1/ConfigMap, namespace: {cluster.namespace}, name: {name}, uid: "
        f'{parent["metadata"]["uid"]}] does not exist in namespace "{cluster.namespace}"'
    )
    await cluster.delete(f"{elsewhere}/{name}")


# ── M19: namespaces ──────────────────────────────────────────────────────────────────────
async def test_m19_a_namespace_is_complete_at_once(cluster: Api) -> None:
    name = f"{cluster.namespace}-x"
    made = await cluster.made("/api/v1/namespaces", {"metadata": {"name": name}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    inside = f"/api/v1/namespaces/{name}"

    async def accepted() -> bool:
        return (await cluster.create(f"{inside}/pods", pod("p"))).status == 201

    await eventually(accepted, 10)
    account = (await cluster.get(f"{inside}/serviceaccounts/default")).body
    assert account["metadata"]["name"] == "default"
    root = await eventually(lambda: _found(cluster, f"{inside}/configmaps/kube-root-ca.crt"))
    assert root is not None
    assert root["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    await cluster.delete(inside)
    await eventually(lambda: _is_gone(cluster, inside))


async def _found(api: Api, path: str) -> dict[str, Any] | None:
    answer = await api.get(path)
    return answer.body if answer.status == 200 else None


async def test_m19_a_dying_namespace_waits_for_its_content(cluster: Api) -> None:
    name = f"{cluster.namespace}-y"
    inside = f"/api/v1/namespaces/{name}"
    await cluster.made("/api/v1/namespaces", {"metadata": {"name": name}})
    await cluster.made(f"{inside}/configmaps", config_map("f", finalizers=["ex.com/f"]))
    answer = await cluster.delete(inside)
    assert answer.status == 200
    assert answer.body["status"]["phase"] == "Terminating"
    assert answer.body["metadata"]["deletionTimestamp"]
    refused = await cluster.create(f"{inside}/configmaps", config_map("x"))
    assert refused.status == 403
    assert refused.message == (
        f'configmaps "x" is forbidden: unable to create new content in namespace {name} because '
        "it is being terminated"
    )
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
    ]

    async def reported() -> bool:
        body = (await cluster.get(inside)).body
        conditions = {one["type"]: one for one in body["status"].get("conditions", ())}
        remaining = conditions.get("NamespaceFinalizersRemaining", {})
        return bool(remaining.get("status") == "True" and "ex.com/f" in remaining["message"])

    await eventually(reported)
    await cluster.patch(f"{inside}/configmaps/f", {"metadata": {"finalizers": None}})
    await eventually(lambda: _is_gone(cluster, inside))


async def test_m19_standing_namespaces(live_recording: Recording) -> None:
    for name in ("default", "kube-system", "kube-public"):
        answer = await live_recording.delete(f"/api/v1/namespaces/{name}")
        assert answer.status == 403


# ── M25: quotas ──────────────────────────────────────────────────────────────────────────
async def test_m25_quotas_are_enforced_and_counted(cluster: Api) -> None:
    spec = {"hard": {"cpu": "1", "memory": "1Gi", "pods": "2", "configmaps": "3"}}
    await cluster.made(cluster.path("resourcequotas"), {"metadata": {"name": "q"}, "spec": spec})

    def asking(name: str, cpu: str) -> dict[str, Any]:
        requests = {"cpu": cpu, "memory": "100Mi"}
        return pod(
            name, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}]
        )

    async def used() -> dict[str, str]:
        body = (await cluster.get(cluster.path("resourcequotas", "q"))).body
        return dict(body.get("status", {}).get("used", {}))

    async def counted(**wanted: str) -> bool:
        return wanted.items() <= (await used()).items()

    await eventually(lambda: counted(cpu="0", pods="0"))
    nothing = await cluster.create(cluster.path("pods"), pod("p"))
    assert nothing.status == 403
    assert nothing.message == (
        'pods "p" is forbidden: failed quota: q: must specify cpu for: c; memory for: c'
    )
    assert nothing.body["details"] == {"name": "p", "kind": "pods"}
    much = await cluster.create(cluster.path("pods"), asking("p", "2"))
    assert much.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: cpu=2, used: cpu=0, limited: cpu=1'
    )
    await cluster.made(cluster.path("pods"), asking("a", "600m"))
    await eventually(lambda: counted(cpu="600m", pods="1", memory="100Mi"))
    much = await cluster.create(cluster.path("pods"), asking("b", "600m"))
    assert much.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: cpu=600m, used: cpu=600m, '
        "limited: cpu=1"
    )
    await cluster.delete(cluster.path("pods", "a"))
    await eventually(lambda: counted(cpu="0", pods="0"))


# ── M26: controllers that clients see ────────────────────────────────────────────────────
def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {"metadata": {"name": "jj"}, "spec": {"template": template, **spec}}


async def pods_of(api: Api, selector: str) -> list[dict[str, Any]]:
    answer = await api.get(api.path("pods"), query={"labelSelector": selector})
    items: list[dict[str, Any]] = answer.body["items"]
    return items


async def finished(api: Api, name: str, phase: str) -> None:
    answer = await api.patch(api.path("pods", name, "status"), {"status": {"phase": phase}})
    assert answer.status == 200, answer.text


async def conditions_of(api: Api, path: str) -> dict[str, dict[str, Any]]:
    status = (await api.get(path)).body.get("status", {})
    return {one["type"]: one for one in status.get("conditions") or ()}


async def test_m26_a_job_runs_its_pod_and_completes(cluster: Api) -> None:
    where = cluster.path("jobs", api="/apis/batch/v1")
    made = await cluster.made(where, job())
    [child] = await eventually(lambda: pods_of(cluster, "job-name=jj"))
    meta = child["metadata"]
    uid = made["metadata"]["uid"]
    assert meta["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert meta["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "jj",
        "controller-uid": uid,
        "job-name": "jj",
    }
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "jj",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    await finished(cluster, meta["name"], "Succeeded")

    async def complete() -> bool:
        return (await conditions_of(cluster, f"{where}/jj")).keys() >= {
            "Complete",
            "SuccessCriteriaMet",
        }

    await eventually(complete)
    status = (await cluster.get(f"{where}/jj")).body["status"]
    assert status["succeeded"] == 1
    assert status["completionTime"]
    pod_now = (await cluster.get(cluster.path("pods", meta["name"]))).body
    assert "finalizers" not in pod_now["metadata"]


async def test_m26_a_job_without_tries_left_fails(cluster: Api) -> None:
    where = cluster.path("jobs", api="/apis/batch/v1")
    await cluster.made(where, job(backoffLimit=0))
    [child] = await eventually(lambda: pods_of(cluster, "job-name=jj"))
    await finished(cluster, child["metadata"]["name"], "Failed")

    async def failed() -> dict[str, dict[str, Any]]:
        found = await conditions_of(cluster, f"{where}/jj")
        return found if "Failed" in found else {}

    conditions = await eventually(failed)
    for kind in ("FailureTarget", "Failed"):
        assert conditions[kind]["reason"] == "BackoffLimitExceeded"
        assert conditions[kind]["message"] == "Job has reached the specified backoff limit"

    async def reported() -> list[tuple[str, str, str]]:
        query = {"fieldSelector": "involvedObject.kind=Job,reason=BackoffLimitExceeded"}
        items = (await cluster.get(cluster.path("events"), query=query)).body["items"]
        return [(one["type"], one["message"], one["reportingComponent"]) for one in items]

    assert await eventually(reported) == [
        ("Warning", "Job has reached the specified backoff limit", "job-controller")
    ]


async def test_m26_a_suspended_job_waits(cluster: Api) -> None:
    where = cluster.path("jobs", api="/apis/batch/v1")
    await cluster.made(where, job(suspend=True))

    async def suspended() -> bool:
        return (await conditions_of(cluster, f"{where}/jj")).get("Suspended", {}).get(
            "status"
        ) == "True"

    await eventually(suspended)
    assert await pods_of(cluster, "job-name=jj") == []
    await cluster.patch(f"{where}/jj", {"spec": {"suspend": False}})
    await eventually(lambda: pods_of(cluster, "job-name=jj"))


async def test_m26_a_finished_job_goes_after_its_time(cluster: Api) -> None:
    where = cluster.path("jobs", api="/apis/batch/v1")
    await cluster.made(where, job(ttlSecondsAfterFinished=0))
    [child] = await eventually(lambda: pods_of(cluster, "job-name=jj"))
    await finished(cluster, child["metadata"]["name"], "Succeeded")
    await eventually(lambda: _is_gone(cluster, f"{where}/jj"))
    await gone(cluster, child["metadata"]["name"], "pods")


async def test_m26_deleting_a_job_leaves_its_pods_and_warns(cluster: Api) -> None:
    where = cluster.path("jobs", api="/apis/batch/v1")
    await cluster.made(where, job())
    [child] = await eventually(lambda: pods_of(cluster, "job-name=jj"))
    answer = await cluster.delete(f"{where}/jj")
    assert "child pods are preserved by default when jobs are deleted" in answer.headers["warning"]
    await eventually(lambda: _is_gone(cluster, f"{where}/jj"))
    left = (await cluster.get(cluster.path("pods", child["metadata"]["name"]))).body
    assert "ownerReferences" not in left["metadata"]


async def test_m26_a_service_has_its_endpoints(cluster: Api) -> None:
    service = {
        "metadata": {"name": "es"},
        "spec": {
            "clusterIP": "None",
            "selector": {"app": "x"},
            "ports": [{"name": "p", "port": 80}],
        },
    }
    made = await cluster.made(cluster.path("services"), service)
    slices = cluster.path("endpointslices", api="/apis/discovery.k8s.io/v1")
    query = {"labelSelector": "kubernetes.io/service-name=es"}

    async def found() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await cluster.get(slices, query=query)).body["items"]
        return items

    [first] = await eventually(found)
    assert first["addressType"] == "IPv4"
    assert first["metadata"]["name"].startswith("es-")
    labels = first["metadata"]["labels"]
    assert labels == {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": "es",
        "service.kubernetes.io/headless": "",
    }
    assert first["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "name": "es",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    node = f"n-{cluster.namespace}"
    await cluster.made("/api/v1/nodes", {"metadata": {"name": node}})
    try:
        body = pod("p", nodeName=node)
        body["metadata"]["labels"] = {"app": "x"}
        await cluster.made(cluster.path("pods"), body)
        status = {
            "phase": "Running",
            "podIP": "10.1.1.1",
            "podIPs": [{"ip": "10.1.1.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await cluster.patch(cluster.path("pods", "p", "status"), {"status": status})

        async def ready() -> dict[str, Any] | None:
            for one in await found():
                for endpoint in one.get("endpoints") or ():
                    if endpoint["conditions"]["ready"]:
                        return {**one, "endpoint": endpoint}
            return None

        full = await eventually(ready)
        assert full is not None
        assert full["endpoint"]["addresses"] == ["10.1.1.1"]
        assert full["endpoint"]["conditions"] == {
            "ready": True,
            "serving": True,
            "terminating": False,
        }
        assert full["endpoint"]["targetRef"]["name"] == "p"
        assert full["endpoint"]["nodeName"] == node
        assert full["ports"] == [{"name": "p", "port": 80, "protocol": "TCP"}]
        status["conditions"] = [{"type": "Ready", "status": "False"}]
        await cluster.patch(cluster.path("pods", "p", "status"), {"status": status})

        async def unready() -> bool:
            [one] = await found()
            return not one["endpoints"][0]["conditions"]["ready"]

        await eventually(unready)
    finally:
        await cluster.delete(cluster.path("pods", "p"), query={"gracePeriodSeconds": "0"})
        await cluster.delete(f"/api/v1/nodes/{node}")


async def test_m26_a_deployment_rolls_out(cluster: Api) -> None:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    where = cluster.path("deployments", api="/apis/apps/v1")
    await cluster.made(where, {"metadata": {"name": "d"}, "spec": spec})

    async def two() -> list[dict[str, Any]]:
        found = await pods_of(cluster, "app=d")
        return found if len(found) == 2 else []

    pods = await eventually(two)
    sets = cluster.path("replicasets", api="/apis/apps/v1")
    [replica_set] = (await cluster.get(sets)).body["items"]
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"d-{digest}"
    assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    for one in pods:
        assert one["metadata"]["labels"] == {"app": "d", "pod-template-hash": digest}
        status = {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ],
        }
        await cluster.patch(
            cluster.path("pods", one["metadata"]["name"], "status"), {"status": status}
        )

    async def available() -> bool:
        status = (await cluster.get(f"{where}/d")).body["status"]
        conditions = {one["type"]: one for one in status.get("conditions", ())}
        return bool(
            status.get("availableReplicas") == 2
            and conditions.get("Available", {}).get("status") == "True"
            and conditions.get("Progressing", {}).get("reason") == "NewReplicaSetAvailable"
        )

    await eventually(available)
    status = (await cluster.get(f"{where}/d")).body["status"]
    assert (status["replicas"], status["updatedReplicas"], status["readyReplicas"]) == (2, 2, 2)
    await cluster.delete(f"{where}/d", {"propagationPolicy": "Background"})

    async def none() -> bool:
        return not await pods_of(cluster, "app=d") and not (await cluster.get(sets)).body["items"]

    await eventually(none)


async def test_m26_the_scheduler_binds_or_says_why_not(cluster: Api) -> None:
    node = f"n-{cluster.namespace}"
    capacity = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    taint = {"key": "ex.com/only", "value": cluster.namespace, "effect": "NoSchedule"}
    await cluster.made("/api/v1/nodes", {"metadata": {"name": node}, "spec": {"taints": [taint]}})
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    try:
        answer = await cluster.patch(f"/api/v1/nodes/{node}/status", {"status": status})
        assert answer.status == 200
        # The node lifecycle controller taints a node without a lease; the test is not about it.
        tolerations = [
            {"key": "ex.com/only", "operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
        ]

        def asking(name: str, cpu: str, **more: Any) -> dict[str, Any]:
            resources = {"requests": {"cpu": cpu}}
            return pod(
                name, containers=[{"name": "c", "image": "i", "resources": resources}], **more
            )

        await cluster.made(cluster.path("pods"), asking("fits", "1", tolerations=tolerations))

        async def bound() -> bool:
            body = (await cluster.get(cluster.path("pods", "fits"))).body
            return body["spec"].get("nodeName") == node

        await eventually(bound)
        conditions = await conditions_of(cluster, cluster.path("pods", "fits"))
        assert conditions["PodScheduled"]["status"] == "True"
        await cluster.made(cluster.path("pods"), asking("big", "3", tolerations=tolerations))

        async def pending() -> dict[str, Any]:
            found = await conditions_of(cluster, cluster.path("pods", "big"))
            return found.get("PodScheduled", {})

        reported = await eventually(pending)
        assert (reported["status"], reported["reason"]) == ("False", "Unschedulable")
        assert "Insufficient cpu" in reported["message"]
        assert reported["message"].startswith("0/")
    finally:
        for name in ("fits", "big"):
            await cluster.delete(cluster.path("pods", name), query={"gracePeriodSeconds": "0"})
        await cluster.delete(f"/api/v1/nodes/{node}")


# ── M27: limits ──────────────────────────────────────────────────────────────────────────
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_m27_limits(live_recording: Recording) -> None:
    where = live_recording.path("configmaps")
    await live_recording.create(where, config_map("a", annotations={"a": "x" * 262145}))
    await live_recording.create(where, config_map("a", annotations={"a": "x" * 262144}))
    await live_recording.create(where, config_map("b", {"k": "x" * (3 * 1024 * 1024)}))
    await live_recording.create(where, config_map("b", {"k": "x" * (1024 * 1024 + 1)}))
    await live_recording.get(live_recording.path("configmaps", "b"))


# ── M28: durability ──────────────────────────────────────────────────────────────────────
@pytest.mark.embedded_only
def test_m28_is_shown_by_histories() -> None:
    """tests/histories kills the server and loses nothing."""
    from histories import test_histories

    assert len(test_histories.PLANS) >= 5
