"""RayClusters under faults: late watches, lost replies, conflicts, crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manta.api.conditions import is_true
from manta.api.meta import Key
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS, SERVICES
from manta.kube.transport import Request
from support.fakenodes import FakeCluster, fake_cluster
from support.faults import touches, writes
from support.raycluster import NAMESPACE, group
from support.raycrds import ray_crds
from support.rayoperator import Operated, condition, operated, start_operator
from support.virtual import until, virtually


def pod_creation(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/pods")


def worker_creation(request: Request) -> bool:
    return pod_creation(request) and b"-worker-" in (request.body or b"")


def status_write(request: Request) -> bool:
    return request.method == "PUT" and request.path.endswith("/status")


@pytest.mark.parametrize("seconds", [5, 90])
@virtually
async def test_c02_c03_a_late_watch_makes_no_pod_twice(seconds: float) -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster, start_operator(cluster) as op:
        op.faults.delay_watch(PODS, seconds)
        op.faults.break_watches()
        await asyncio.sleep(2)
        await op.create(groups=[group(replicas=0, maxReplicas=50)])
        await op.until_pods(1, node="head")
        await op.scale(50)
        await op.until_pods(50)
        await asyncio.sleep(2 * seconds)
        await op.scale(10)
        await op.until_pods(10)
        await asyncio.sleep(4 * seconds)
        assert (op.pod_creates(), op.pod_deletes()) == (51, 40)


@virtually
async def test_c02_a_lost_reply_makes_no_pod_twice() -> None:
    async with operated() as op:
        op.faults.delay_watch(PODS, 60)  # else the watch tells what the reply did not
        op.faults.break_watches()
        await asyncio.sleep(2)
        op.faults.fail_after(worker_creation, times=3)
        await op.create(groups=[group(replicas=5)])
        await op.until_ready(seconds=600)
        assert op.pod_creates() == 6
        assert op.pod_deletes() == 0


@virtually
async def test_c16_a_list_that_fails_is_not_an_empty_cluster() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=3)])
        await op.until_ready()
        for _ in range(20):
            op.faults.expire(touches(PODS, "GET"))  # the watch cannot go on: a list is due
            op.faults.fail_before(touches(PODS, "GET"), times=15, code=504)
            op.faults.break_watches()
            await asyncio.sleep(60)
        assert op.pod_deletes() == 0
        assert op.pod_creates() == 4


@virtually
async def test_c27_errors_of_the_server_change_no_state() -> None:
    async with operated() as op:
        await op.create()
        before = await op.until_ready()
        op.faults.fail_before(touches(PODS, "GET"), times=2, code=500)
        op.faults.break_watches()
        await asyncio.sleep(60)
        assert (await op.read()).status == before.status


@virtually
async def test_c31_a_conflict_on_every_status_write_changes_nothing_in_the_end() -> None:
    async with operated() as op:
        over = asyncio.Event()
        op.faults.conflict(lambda one: status_write(one) and not over.is_set(), times=None)
        await op.create(groups=[group(replicas=3)])
        await op.until_pods(3)
        await asyncio.sleep(2)
        over.set()  # nothing happens any more that would start a round
        found = await op.until_ready(seconds=100)
        assert found.status.ready_worker_replicas == 3
        assert (op.pod_creates(), op.pod_deletes()) == (4, 0)


@virtually
async def test_c31_a_lost_reply_to_a_status_write_is_looked_up() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=3)])
        await op.until_ready()
        op.faults.delay_watch(RAY_CLUSTERS, 300)  # the watch will not tell either
        op.faults.break_watches()
        await asyncio.sleep(2)
        op.faults.fail_after(status_write)
        await op.client.delete(PODS, await op.head(), grace_seconds=0)
        await op.until(lambda one: not _has_head(one), seconds=30)
        await op.until(_has_head, seconds=60)
        assert (op.pod_creates(), op.pod_deletes()) == (5, 0)


def _has_head(cluster: RayCluster) -> bool:
    return is_true(cluster.status.conditions, ClusterConditionType.HEAD_POD_READY)


@virtually
async def test_c49_a_swallowed_event_is_made_good() -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster, start_operator(cluster) as op:
        await asyncio.sleep(1)

        def head_is_ready(event: object) -> bool:
            text = str(event)
            return "'head'" in text and "'type': 'Ready', 'status': 'True'" in text.replace(
                '"', "'"
            )

        op.faults.drop_event(PODS, head_is_ready, times=1)
        op.faults.break_watches()
        await asyncio.sleep(2)
        await op.create()
        # Progress is written after ten seconds; without news for a minute the cache is checked.
        await op.until_ready(seconds=80)


@virtually
async def test_c08_a_pod_that_is_gone_already_stops_nobody() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=3)])
        await op.until_ready()
        op.faults.delay_watch(PODS, 30)  # nobody tells the operator that one is gone
        op.faults.break_watches()
        await asyncio.sleep(2)
        names = [one["metadata"]["name"] for one in await op.pods(node="worker")]
        await op.client.delete(PODS, Key(NAMESPACE, names[0]), grace_seconds=0)
        await op.scale(0)
        await op.until_pods(0)
        assert f"DELETE {PODS.path(NAMESPACE, names[0])}" in [
            f"{one.method} {one.path}" for one in op.faults.log
        ]
        assert await op.cluster.events("FailedToDeleteWorkerPod", NAMESPACE) == []


@virtually
async def test_c75_a_cluster_that_is_deleted_and_made_again_adopts_nothing_old() -> None:
    async with operated() as op:
        for _ in range(10):
            await op.create(groups=[group(replicas=1)])
            await asyncio.sleep(0.4)
            await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
            await op.cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)
            await asyncio.sleep(0.05)
        await op.create(groups=[group(replicas=1)])
        found = await op.until_ready(seconds=300)
        await asyncio.sleep(60)
        owners = {
            child["metadata"]["ownerReferences"][0]["uid"]
            for resource in (PODS, SERVICES)
            for child in (await op.client.list(resource, NAMESPACE, labels="ray.io/cluster")).items
        }
        assert owners == {found.metadata.uid}
        assert len(await op.pods()) == 2


@virtually
async def test_c36_a_big_cluster_does_not_hold_up_a_small_one() -> None:
    async with operated(nodes=20) as op:
        await op.create("big", groups=[group(replicas=0, maxReplicas=1000)])
        await op.until_ready("big")
        op.faults.slow(pod_creation, 0.05)
        await op.scale(300, "big")
        await asyncio.sleep(0.2)
        await op.create("small", groups=[group(replicas=1)])

        async def has_head() -> bool:
            return bool(await op.pods("small", "head"))

        await op.cluster.until(has_head, seconds=1)
        await op.until_ready("small", seconds=5)


@virtually
async def test_c38_what_is_gone_is_forgotten() -> None:
    async with operated() as op:
        for number in range(5):
            await op.create(f"c{number}")
            await op.until_ready(f"c{number}")
            await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, f"c{number}"))
            await op.cluster.until_gone(RAY_CLUSTERS, f"c{number}", NAMESPACE)
        await asyncio.sleep(900)
        assert len(op.manager.freshness) == 0
        assert _noticed(op) == {}


@virtually
async def test_c38_progress_of_a_cluster_that_is_gone_is_forgotten() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=3)])
        await op.until_ready()
        [lost, *_] = await op.pods(node="worker")
        await op.client.delete(PODS, Key(NAMESPACE, lost["metadata"]["name"]), grace_seconds=0)
        await until(lambda: _noticed(op), seconds=5)
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await op.cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)
        await asyncio.sleep(60)
        assert _noticed(op) == {}


def _noticed(op: Operated) -> dict[Key, Any]:
    """What the controller remembers of clusters, beside its caches."""
    [controller] = op.manager._controllers
    remembered: dict[Key, Any] = getattr(controller._reconcile, "__self__")._held_since  # noqa: B009
    return remembered


# ── R2: killed after every single write ──────────────────────────────────────────────────

FULL: dict[str, Any] = {
    "groups": [group("a", replicas=2), group("b", replicas=1, numOfHosts=2)],
    "enableInTreeAutoscaling": True,
    "authOptions": {"mode": "token"},
    "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
}


@asynccontextmanager
async def killed_after(cluster: FakeCluster, writes_: int) -> AsyncIterator[Operated]:
    """An operator that dies right after so many accepted writes."""
    async with start_operator(cluster) as op:
        dead = asyncio.Event()
        op.faults.kill_after_writes(writes_, dead.set)
        yield op


@pytest.mark.parametrize("count", range(1, 17))
@virtually
async def test_r2_killed_after_any_write_a_new_operator_finishes_the_work(count: int) -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster:
        async with killed_after(cluster, count) as first:
            await first.create(**FULL)
            await asyncio.sleep(30)
            made = first.pod_creates()
        async with start_operator(cluster, seed=count) as second:
            found = await second.until_ready(seconds=300)
            await asyncio.sleep(30)
            # Only an incomplete replica is re-created, as a whole.
            half_made = second.pod_deletes()
            assert half_made <= 1
            assert made + second.pod_creates() - half_made == 5
            assert found.status.ready_worker_replicas == 4
            await second.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
            await cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)


@pytest.mark.parametrize("count", range(1, 8))
@virtually
async def test_r2_killed_while_deleting_a_new_operator_lets_it_go(count: int) -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster:
        async with start_operator(cluster) as op:
            await op.create(gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
            await op.until_ready()
        async with killed_after(cluster, count) as first:
            await asyncio.sleep(1)
            await first.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
            await asyncio.sleep(60)
        async with start_operator(cluster, seed=count) as second:
            await cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)
            assert len(first.writes("/jobs", "POST")) + len(second.writes("/jobs", "POST")) == 1


@virtually
async def test_every_write_refused_once_is_made_good() -> None:
    async with operated() as op:
        for resource in (PODS, SERVICES, RAY_CLUSTERS):
            op.faults.fail_before(writes(resource), times=2)
        await op.create(**FULL)
        found = await op.until_ready(seconds=600)
        assert found.status.ready_worker_replicas == 4
        assert op.pod_creates() == 5


# ── refusals for good ────────────────────────────────────────────────────────────────────


LAST_HOST = b'"ray.io/replica-host-index":"3"'


def job_creation(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/jobs")


def ingress_creation(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/ingresses")


@pytest.mark.parametrize("timeout", [None, "45"])
@virtually
async def test_c70_a_cleanup_job_that_is_refused_for_ever_holds_nobody_for_longer(
    timeout: str | None,
) -> None:
    """The backoff of the refusals must not outlast the time that the deletion has."""
    annotation = {"ray.io/gcs-ft-deletion-timeout": timeout} if timeout else None
    async with operated() as op:
        op.faults.deny(job_creation, times=None)
        await op.create(
            annotations=annotation, gcsFaultToleranceOptions={"redisAddress": "redis:6379"}
        )
        await op.until_ready()
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))

        async def gone() -> bool:
            return await op.cluster.get(RAY_CLUSTERS, "demo", NAMESPACE) is None

        await op.cluster.until(gone, seconds=int(timeout or 300) + 5)


@virtually
async def test_an_ingress_that_is_refused_for_ever_delays_no_news() -> None:
    """A delayed status write happens on time, however long the Ingress backs off."""
    async with operated() as op:
        op.faults.deny(ingress_creation, times=None)
        op.cluster.nodes.script("ray.io/group=stuck", "start=never")
        await op.create(
            head={"enableIngress": True}, groups=[group(replicas=1), group("stuck", replicas=0)]
        )
        await op.until_ready()
        await asyncio.sleep(2000)  # by now five minutes lie between two tries of the Ingress
        await op.scale(1, number=1)
        await op.scale(3)
        await op.until(lambda one: one.status.available_worker_replicas == 3, seconds=30)


@virtually
async def test_c92_a_replica_whose_last_host_is_refused_is_not_made_over_and_over() -> None:
    async with operated() as op:
        op.faults.deny(
            lambda one: worker_creation(one) and LAST_HOST in (one.body or b""),
            times=None,
        )
        await op.create(groups=[group(replicas=1, numOfHosts=4)])
        await asyncio.sleep(900)
        assert op.pod_creates() < 60
        blocked = condition(await op.read(), "Blocked")
        assert blocked is not None
        assert "denied by injection" in blocked.message
