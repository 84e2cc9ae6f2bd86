"""Deployments, Services, namespaces, accounts, quotas and nodes on the embedded server."""

from __future__ import annotations

import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from manta.api.times import format_micro_time
from manta.kube.errors import NotFound
from support.fakenodes import FakeCluster, a_pod_manifest, fake_cluster
from support.virtual import running, virtually


def a_deployment(image: str = "v1", script: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {"fake.manta.io/script": script} if script else {}
    template = {
        "metadata": {"labels": {"app": "d"}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template, **spec},
    }


async def is_rolled_out(cluster: FakeCluster) -> bool:
    """What `kubectl rollout status` waits for."""
    held = await cluster.get(DEPLOYMENTS, "d")
    if held is None or "status" not in held:
        return False
    status, wanted = held["status"], held["spec"]["replicas"]
    if status.get("observedGeneration", 0) < held["metadata"]["generation"]:
        return False
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(name, 0) == wanted for name in counts)


# ── Deployments ──────────────────────────────────────────────────────────────────────────
@virtually
async def test_a_deployment_rolls_out_and_rolls_over() -> None:
    async with fake_cluster(nodes=2) as cluster:
        await cluster.client.create(DEPLOYMENTS, "default", a_deployment(replicas=3))
        await cluster.until(lambda: is_rolled_out(cluster))
        template = a_deployment("v2")["spec"]["template"]
        await cluster.client.patch(
            DEPLOYMENTS, Key("default", "d"), {"spec": {"template": template}}
        )
        await cluster.until(lambda: is_rolled_out(cluster))
        images = [one["spec"]["containers"][0]["image"] for one in await cluster.pods()]
        assert images == ["v2"] * 3
        sizes = sorted(one["spec"]["replicas"] for one in await cluster.all(REPLICA_SETS))
        assert sizes == [0, 3]
        held = await cluster.get(DEPLOYMENTS, "d")
        assert held is not None
        assert held["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


@virtually
async def test_recreate_never_has_old_and_new_pods_together() -> None:
    async with fake_cluster() as cluster:
        manifest = a_deployment(script="stop=5", replicas=2, strategy={"type": "Recreate"})
        await cluster.client.create(DEPLOYMENTS, "default", manifest)
        await cluster.until(lambda: is_rolled_out(cluster))
        template = a_deployment("v2")["spec"]["template"]
        await cluster.client.patch(
            DEPLOYMENTS, Key("default", "d"), {"spec": {"template": template}}
        )
        seen: set[frozenset[str]] = set()

        async def rolled() -> bool:
            images = {one["spec"]["containers"][0]["image"] for one in await cluster.pods()}
            seen.add(frozenset(images))
            return images == {"v2"} and await is_rolled_out(cluster)

        await cluster.until(rolled)
        assert frozenset({"v1", "v2"}) not in seen


@virtually
async def test_a_rollout_of_a_bad_image_keeps_the_old_pods_and_times_out() -> None:
    async with fake_cluster() as cluster:
        manifest = a_deployment(replicas=2, progressDeadlineSeconds=60)
        await cluster.client.create(DEPLOYMENTS, "default", manifest)
        await cluster.until(lambda: is_rolled_out(cluster))
        template = a_deployment("bad", "pull=error")["spec"]["template"]
        await cluster.client.patch(
            DEPLOYMENTS, Key("default", "d"), {"spec": {"template": template}}
        )
        await asyncio.sleep(90)
        held = await cluster.get(DEPLOYMENTS, "d")
        assert held is not None
        said = {one["type"]: one["reason"] for one in held["status"]["conditions"]}
        assert said["Progressing"] == "ProgressDeadlineExceeded"
        assert held["status"]["availableReplicas"] == 2


@virtually
async def test_scaling_to_zero_and_deleting_leave_nothing() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(DEPLOYMENTS, "default", a_deployment(replicas=2))
        await cluster.until(lambda: is_rolled_out(cluster))
        await cluster.client.patch(DEPLOYMENTS, Key("default", "d"), {"spec": {"replicas": 0}})
        await cluster.until(lambda: is_rolled_out(cluster))
        assert await cluster.pods() == []
        await cluster.client.delete(DEPLOYMENTS, Key("default", "d"))

        async def empty() -> bool:
            return not await cluster.all(REPLICA_SETS)

        await cluster.until(empty)


# ── Services ─────────────────────────────────────────────────────────────────────────────
async def endpoints(cluster: FakeCluster) -> dict[str, bool]:
    return {
        one["targetRef"]["name"]: one["conditions"]["ready"]
        for held in await cluster.all(ENDPOINT_SLICES)
        for one in held.get("endpoints") or ()
    }


@virtually
async def test_endpoints_follow_the_readiness_of_pods() -> None:
    async with fake_cluster() as cluster:
        service = {
            "metadata": {"name": "s"},
            "spec": {"selector": {"app": "p"}, "ports": [{"port": 80}]},
        }
        await cluster.client.create(SERVICES, "default", service)
        await cluster.client.create(PODS, "default", a_pod_manifest("p", "ready=10 stop=20"))
        await asyncio.sleep(5)
        assert await endpoints(cluster) == {"p": False}
        await asyncio.sleep(10)
        assert await endpoints(cluster) == {"p": True}
        await cluster.client.delete(PODS, Key("default", "p"))
        await asyncio.sleep(5)
        assert await endpoints(cluster) == {"p": False}
        await cluster.until_gone(PODS, "p")
        await asyncio.sleep(1)
        assert await endpoints(cluster) == {}
        await cluster.client.delete(SERVICES, Key("default", "s"))
        await asyncio.sleep(5)
        assert await cluster.all(ENDPOINT_SLICES) == []
        assert await cluster.get(ENDPOINTS, "s") is None


# ── namespaces, accounts, quotas ─────────────────────────────────────────────────────────
@virtually
async def test_a_new_namespace_has_an_account_and_the_certificate() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(NAMESPACES, "", {"metadata": {"name": "x"}})
        await asyncio.sleep(1)
        assert await cluster.names(SERVICE_ACCOUNTS, "x") == ["default"]
        held = await cluster.get(CONFIG_MAPS, "kube-root-ca.crt", "x")
        assert held is not None
        assert held["data"] == {"ca.crt": "PEM"}
        await cluster.client.delete(SERVICE_ACCOUNTS, Key("x", "default"))
        await asyncio.sleep(1)
        assert await cluster.names(SERVICE_ACCOUNTS, "x") == ["default"]


@virtually
async def test_a_namespace_goes_with_all_that_is_in_it_and_waits_for_finalizers() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(NAMESPACES, "", {"metadata": {"name": "x"}})
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await cluster.client.create(CONFIG_MAPS, "x", held)
        await cluster.client.create(PODS, "x", a_pod_manifest("p", "stop=10"))
        await asyncio.sleep(2)
        await cluster.client.delete(NAMESPACES, Key("", "x"))
        await asyncio.sleep(30)
        namespace = await cluster.get(NAMESPACES, "x")
        assert namespace is not None
        said = {one["type"]: one["message"] for one in namespace["status"]["conditions"]}
        assert "example.com/hold in 1" in said["NamespaceFinalizersRemaining"]
        assert await cluster.get(PODS, "p", "x") is None
        patch: dict[str, Any] = {"metadata": {"finalizers": None}}
        await cluster.client.patch(CONFIG_MAPS, Key("x", "held"), patch)
        await cluster.until_gone(NAMESPACES, "x")


@virtually
async def test_a_quota_tells_what_is_used_and_again_what_is_free() -> None:
    async with fake_cluster() as cluster:
        quota = {
            "metadata": {"name": "q"},
            "spec": {"hard": {"cpu": "2", "pods": "5", "secrets": "3"}},
        }
        await cluster.client.create(RESOURCE_QUOTAS, "default", quota)
        requests = {"resources": {"requests": {"cpu": "1500m"}}}
        await cluster.client.create(PODS, "default", a_pod_manifest("p", container=requests))
        await asyncio.sleep(2)

        async def used() -> dict[str, str]:
            held = await cluster.get(RESOURCE_QUOTAS, "q")
            assert held is not None
            return held["status"]["used"]

        assert await used() == {"cpu": "1500m", "pods": "1", "secrets": "0"}
        await cluster.client.delete(PODS, Key("default", "p"))
        await cluster.until_gone(PODS, "p")
        await asyncio.sleep(1)
        assert await used() == {"cpu": "0", "pods": "0", "secrets": "0"}


# ── nodes ────────────────────────────────────────────────────────────────────────────────
def eager(seconds: int) -> dict[str, Any]:
    """A toleration of lost nodes for so many seconds."""
    return {
        "tolerations": [
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": seconds,
            }
        ]
    }


@virtually
async def test_a_lost_node_is_marked_and_its_pods_go_when_they_lose_patience() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(PODS, "default", a_pod_manifest("p", **eager(60)))
        await cluster.until_phase("p", "Running")
        cluster.nodes.disconnect("fake-node-0")
        await asyncio.sleep(70)
        assert not await cluster.is_true(NODES, "fake-node-0", "Ready")
        assert not await cluster.is_true(PODS, "p", "Ready")
        node = await cluster.get(NODES, "fake-node-0")
        assert node is not None
        assert {one["key"] for one in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
        await asyncio.sleep(60)
        pod = await cluster.get(PODS, "p")
        assert pod is not None, "nobody but the kubelet can confirm the end of a Pod"
        assert pod["metadata"]["deletionTimestamp"]
        assert await cluster.events("TaintManagerEviction") == [
            "Marking for deletion Pod default/p"
        ]
        cluster.nodes.reconnect("fake-node-0")
        await cluster.until_gone(PODS, "p")
        await cluster.until(lambda: cluster.is_true(NODES, "fake-node-0", "Ready"))
        await asyncio.sleep(1)
        node = await cluster.get(NODES, "fake-node-0")
        assert node is not None
        assert not node["spec"].get("taints")


@virtually
async def test_a_node_that_comes_back_vouches_for_its_pods() -> None:
    async with fake_cluster() as cluster:
        await cluster.client.create(PODS, "default", a_pod_manifest("p"))
        await cluster.until_phase("p", "Running")
        cluster.nodes.disconnect("fake-node-0")
        await asyncio.sleep(70)
        lost = await cluster.get(PODS, "p")
        assert not await cluster.is_true(PODS, "p", "Ready")
        cluster.nodes.reconnect("fake-node-0")
        await cluster.until(lambda: cluster.is_true(NODES, "fake-node-0", "Ready"))
        await cluster.until(lambda: cluster.is_true(PODS, "p", "Ready"))
        back = await cluster.get(PODS, "p")
        assert lost is not None
        assert back is not None
        assert back["metadata"]["uid"] == lost["metadata"]["uid"]
        assert [one["restartCount"] for one in back["status"]["containerStatuses"]] == [0]


@virtually
async def test_pods_of_a_deleted_node_are_removed() -> None:
    async with fake_cluster(nodes=2) as cluster:
        await cluster.client.create(PODS, "default", a_pod_manifest("p"))
        pod = await cluster.until_phase("p", "Running")
        node = pod["spec"]["nodeName"]
        cluster.nodes.disconnect(node)
        await cluster.client.delete(NODES, Key("", node))
        await cluster.until_gone(PODS, "p")


@virtually
async def test_idle_controllers_write_nothing_but_heartbeats() -> None:
    async with fake_cluster(nodes=1, heartbeat=1e6) as cluster:
        await cluster.client.create(DEPLOYMENTS, "default", a_deployment(replicas=2))
        await cluster.until(lambda: is_rolled_out(cluster))
        await asyncio.sleep(2)
        before = cluster.plane.app.store.revision
        await asyncio.sleep(30)
        assert cluster.plane.app.store.revision == before


async def keep_renewing(cluster: FakeCluster, node: str) -> None:
    """As a kubelet that did not see the deletion."""
    while True:
        spec = {"holderIdentity": node, "renewTime": format_micro_time(cluster.plane.clock.now())}
        lease = {"metadata": {"name": node}, "spec": spec}
        try:
            await cluster.client.patch(LEASES, Key("kube-node-lease", node), lease)
        except NotFound:
            await cluster.client.create(LEASES, "kube-node-lease", lease)
        await asyncio.sleep(10)


@virtually
async def test_a_deleted_node_is_lost_although_its_kubelet_goes_on() -> None:
    """U7: it renews its Lease, but a node that is not there takes no Pods and keeps none."""
    async with fake_cluster(nodes=2) as cluster:
        await cluster.client.create(DEPLOYMENTS, "default", a_deployment(replicas=2))
        await cluster.until(lambda: is_rolled_out(cluster))
        before = (await cluster.client.list(PODS, "default")).items
        node = before[0]["spec"]["nodeName"]
        gone = {one["metadata"]["name"] for one in before if one["spec"]["nodeName"] == node}
        await cluster.client.delete(NODES, Key("", node))
        async with running(keep_renewing(cluster, node)):
            for name in gone:
                await cluster.until_gone(PODS, name)
            await cluster.until(lambda: is_rolled_out(cluster))
        after = (await cluster.client.list(PODS, "default")).items
        assert node not in {one["spec"].get("nodeName") for one in after}
