"""RayClusters on a whole control plane: our own, or Kubernetes' (`make test-kubernetes`)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import (
    ENDPOINT_SLICES,
    EVENTS,
    INGRESSES,
    JOBS,
    NETWORK_POLICIES,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from manta.kube.errors import ApiError
from support.operator_fixture import OperatorFixture, until
from support.operator_objects import a_cluster
from support.raycluster import group

Json = dict[str, Any]


def is_ready(status: Json) -> bool:
    return bool(status.get("state") == "ready")


def said(status: Json, type_: str) -> Json:
    found = [one for one in status.get("conditions") or () if one["type"] == type_]
    return found[0] if found else {}


async def ready(operator_fixture: OperatorFixture, name: str, **fields: Any) -> Json:
    await operator_fixture.make(RAY_CLUSTERS, a_cluster(operator_fixture, name, **fields))
    return await operator_fixture.until(RAY_CLUSTERS, name, is_ready)


async def scale(operator_fixture: OperatorFixture, name: str, replicas: int) -> None:
    at = "/spec/workerGroupSpecs/0/replicas"
    await operator_fixture.edit(
        RAY_CLUSTERS, name, [{"op": "replace", "path": at, "value": replicas}]
    )


async def test_a_cluster_becomes_ready_with_children_of_its_own(
    operated: OperatorFixture, name: str
) -> None:
    found = await ready(operated, name, groups=[group(replicas=2)])
    status = found["status"]
    assert (status["desiredWorkerReplicas"], status["readyWorkerReplicas"]) == (2, 2)
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert status["endpoints"]["dashboard"] == str(operated.dashboards.dashboard)
    assert said(status, "HeadPodReady")["status"] == "True"
    assert said(status, "RayClusterProvisioned")["status"] == "True"
    service = await operated.get(SERVICES, f"{name}-head-svc")
    assert service is not None
    for child in (service, *await operated.pods(name)):
        [owner] = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (found["metadata"]["uid"], True)

    async def reachable() -> list[Json]:
        slices = await operated.all(ENDPOINT_SLICES, f"kubernetes.io/service-name={name}-head-svc")
        return [one for each in slices for one in each["endpoints"]]

    assert len(await until(reachable)) == 1


async def test_workers_come_and_go_with_replicas(operated: OperatorFixture, name: str) -> None:
    await ready(operated, name)
    await scale(operated, name, 6)
    await operated.until_pods(6, name)
    await scale(operated, name, 2)
    await operated.until_pods(2, name)
    await operated.until(RAY_CLUSTERS, name, lambda status: status["readyWorkerReplicas"] == 2)


async def test_the_autoscaler_names_who_goes(operated: OperatorFixture, name: str) -> None:
    await ready(operated, name, groups=[group(replicas=3)], enableInTreeAutoscaling=True)
    pods = [one["metadata"]["name"] for one in await operated.pods(name, "worker")]
    at = "/spec/workerGroupSpecs/0"
    chosen = {"workersToDelete": pods[:1]}
    body = [
        {"op": "add", "path": f"{at}/scaleStrategy", "value": chosen},
        {"op": "replace", "path": f"{at}/replicas", "value": 2},
    ]
    await operated.edit(RAY_CLUSTERS, name, body)
    left = await operated.until_pods(2, name)
    assert {one["metadata"]["name"] for one in left} == set(pods[1:])


async def test_a_lost_pod_is_replaced(operated: OperatorFixture, name: str) -> None:
    await ready(operated, name)
    for node in ("head", "worker"):
        [before] = await operated.pods(name, node)
        operated.nodes.evict(operated.key(before["metadata"]["name"]))

        async def replaced(node: str = node, before: Json = before) -> bool:
            pods = await operated.pods(name, node)
            return bool(pods) and before["metadata"]["uid"] not in {
                one["metadata"]["uid"] for one in pods
            }

        await until(replaced)
        await operated.until_pods(1, name, node)


async def test_a_new_spec_recreates_all_pods_where_that_is_asked_for(
    operated: OperatorFixture, name: str
) -> None:
    await ready(operated, name, upgradeStrategy={"type": "Recreate"})
    before = {one["metadata"]["uid"] for one in await operated.pods(name)}
    at = "/spec/headGroupSpec/template/spec/containers/0/image"
    image = "rayproject/ray:2.61.0"
    await operated.edit(RAY_CLUSTERS, name, [{"op": "replace", "path": at, "value": image}])

    async def recreated() -> bool:
        pods = await operated.pods(name)
        return len(pods) == 2 and not before & {one["metadata"]["uid"] for one in pods}

    await until(recreated)
    [head] = await operated.until_pods(1, name, "head")
    assert head["spec"]["containers"][0]["image"] == image


async def test_a_suspended_cluster_has_no_pods_and_comes_back(
    operated: OperatorFixture, name: str
) -> None:
    await ready(operated, name)
    await operated.edit(RAY_CLUSTERS, name, {"spec": {"suspend": True}})
    found = await operated.until(RAY_CLUSTERS, name, lambda one: one["state"] == "suspended")
    assert said(found["status"], "RayClusterSuspended")["status"] == "True"
    assert await operated.pods(name) == []
    await operated.edit(RAY_CLUSTERS, name, {"spec": {"suspend": False}})
    await operated.until(RAY_CLUSTERS, name, is_ready)
    assert len(await operated.pods(name)) == 2


async def test_a_deleted_cluster_empties_its_redis_first_and_leaves_nothing(
    operated: OperatorFixture, name: str
) -> None:
    storage = {"redisAddress": "redis://redis.example.com:6379"}
    found = await ready(operated, name, gcsFaultToleranceOptions=storage)
    assert found["metadata"]["finalizers"] == ["ray.io/gcs-ft-redis-cleanup-finalizer"]
    await operated.delete(RAY_CLUSTERS, name)

    async def cleaning() -> list[Json]:
        return await operated.all(JOBS, f"ray.io/cluster={name}")

    [job] = await until(cleaning)
    assert job["metadata"]["name"] == f"{name}-redis-cleanup"
    await operated.until_gone(RAY_CLUSTERS, name)
    for resource in (PODS, JOBS, SERVICES):
        await operated.until_none(resource, f"ray.io/cluster={name}")


def everything(operator_fixture: OperatorFixture, name: str) -> Json:
    return a_cluster(
        operator_fixture,
        name,
        groups=[group("a", replicas=2), group("b", numOfHosts=2)],
        annotations={"ray.io/enable-serve-service": "true", "note": "passed on"},
        head={"enableIngress": True, "ingressOptions": {"host": "ray.example.com"}},
        headServiceAnnotations={"a": "b"},
        enableInTreeAutoscaling=True,
        authOptions={"mode": "token"},
        networkPolicy={"head": {"ingressRules": [{"ports": [{"port": 8265}]}]}},
    )


async def test_all_children_are_made_stay_as_they_are_and_go(
    operated: OperatorFixture, name: str
) -> None:
    """What a server fills in by itself is no drift: nothing is written a second time."""
    await operated.make(RAY_CLUSTERS, everything(operated, name))
    await operated.until(RAY_CLUSTERS, name, is_ready)
    children = (
        (SERVICES, f"{name}-head-svc"),
        (SERVICES, f"{name}-headless"),
        (SERVICES, f"{name}-serve-svc"),
        (SERVICE_ACCOUNTS, name),
        (ROLES, name),
        (ROLE_BINDINGS, name),
        (SECRETS, name),
        (INGRESSES, f"{name}-head-ingress"),
        (NETWORK_POLICIES, f"{name}-head"),
    )

    async def versions() -> list[str]:
        found = [await operated.get(resource, child) for resource, child in children]
        return [one["metadata"]["resourceVersion"] if one else "" for one in found]

    await asyncio.sleep(1)
    before = await versions()
    assert all(before), dict(zip(children, before, strict=True))
    for number in range(5):
        await operated.edit(RAY_CLUSTERS, name, {"metadata": {"labels": {"n": str(number)}}})
        await asyncio.sleep(0.2)
    assert await versions() == before
    await operated.delete(RAY_CLUSTERS, name)
    for resource, child in children:
        await operated.until_gone(resource, child)


async def test_a_host_that_is_lost_takes_its_replica_along(
    operated: OperatorFixture, name: str
) -> None:
    await ready(operated, name, groups=[group(replicas=2, numOfHosts=2)])
    label = "ray.io/worker-group-replica-name"
    pods = await operated.until_pods(4, name)
    lost = pods[0]["metadata"]
    kept = {
        one["metadata"]["uid"]
        for one in pods
        if one["metadata"]["labels"][label] != lost["labels"][label]
    }
    operated.nodes.evict(operated.key(lost["name"]))

    async def corrected() -> bool:
        now = {one["metadata"]["uid"] for one in await operated.pods(name, "worker")}
        return len(now) == 4 and lost["uid"] not in now

    await until(corrected)
    after = {one["metadata"]["uid"] for one in await operated.until_pods(4, name)}
    before = {one["metadata"]["uid"] for one in pods}
    assert after & before == kept


async def test_a_quota_is_reported_in_the_servers_words_and_lifted(
    operated: OperatorFixture, name: str
) -> None:
    quota = {"metadata": {"name": name}, "spec": {"hard": {"count/pods": "0"}}}
    await operated.make(RESOURCE_QUOTAS, quota)

    async def counted() -> bool:
        found = await operated.get(RESOURCE_QUOTAS, name)
        return bool(found and (found.get("status") or {}).get("hard"))

    await until(counted)
    await operated.make(RAY_CLUSTERS, a_cluster(operated, name))
    found = await operated.until(RAY_CLUSTERS, name, lambda one: said(one, "ReplicaFailure"))
    reported = said(found["status"], "ReplicaFailure")
    assert reported["reason"] == "FailedCreateHeadPod"
    assert "exceeded quota" in reported["message"]
    await operated.delete(RESOURCE_QUOTAS, name)
    found = await operated.until(RAY_CLUSTERS, name, is_ready)
    assert said(found["status"], "ReplicaFailure") == {}


async def test_an_invalid_cluster_is_reported_what_is_wrong(
    operated: OperatorFixture, name: str
) -> None:
    limits = {"authOptions": {"mode": "token"}, "rayVersion": "2.40.0"}
    await operated.make(RAY_CLUSTERS, a_cluster(operated, name, **limits))

    async def warned() -> list[Json]:
        events = await operated.all(EVENTS)
        return [
            one
            for one in events
            if one["regarding"]["name"] == name and one["reason"] == "InvalidRayClusterSpec"
        ]

    [event, *_] = await until(warned)
    assert "2.52.0" in event["note"]
    assert await operated.pods(name) == []


async def test_what_the_schema_forbids_is_refused_by_the_server(
    operated: OperatorFixture, name: str
) -> None:
    with pytest.raises(ApiError, match=r"managedBy"):
        await operated.make(RAY_CLUSTERS, a_cluster(operated, name, managedBy="somebody"))
