"""Known bugs that show only at scale: thousands of foreign Pods, hundreds of clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import EVENTS, PODS
from manta.rules.settings import Settings
from manta.runtime.manager import Manager
from support import rayjob_scenario as jobs
from support import rayservice as services
from support.raycluster import NAMESPACE, container, group
from support.rayoperator import Operated, operated
from support.virtual import until, virtually

FOREIGN_PODS = 5000
CLUSTERS = 300
PASSING = 200
PARENTS = 50
AT_ONCE = 100


def rounds(op: Operated) -> list[str]:
    lines = op.manager.registry.render().splitlines()
    return [one for one in lines if one.startswith("controller_runtime_reconcile_total")]


def cached(op: Operated) -> dict[str, int]:
    """How many objects each cache of the operator holds; none of empty ones."""
    held = op.manager._informers.values()
    return {one.resource.plural: len(one) for one in held if len(one)}


async def crowd(op: Operated, count: int) -> None:
    """Foreign Pods with common labels, and their Events."""
    labels = {"app.kubernetes.io/name": "kuberay", "app": "web", "ray.io/serve": "true"}
    for number in range(count):
        name = f"stranger-{number}"
        pod = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [container()], "schedulerName": "nobody"},
        }
        await op.client.create(PODS, NAMESPACE, pod)
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": name}
        event = {
            "metadata": {"name": f"{name}.1"},
            "regarding": about,
            "reason": "FailedScheduling",
            "note": "no node fits",
            "type": "Warning",
            "action": "Scheduling",
            "reportingController": "nobody",
            "reportingInstance": "nobody",
            "eventTime": "2026-11-15T08:00:00.000000Z",
        }
        await op.client.create(EVENTS, NAMESPACE, event)


@virtually
async def test_c34_c37_five_thousand_pods_of_others_wake_nobody_and_are_not_kept() -> None:
    """What is not kept costs no memory, however many there are."""
    async with operated() as op:
        await asyncio.sleep(1)
        before, held = rounds(op), cached(op)
        await crowd(op, FOREIGN_PODS)
        await asyncio.sleep(10)
        assert len(await op.cluster.pods("app=web", NAMESPACE)) == FOREIGN_PODS
        assert rounds(op) == before
        assert cached(op) == held


def names_of(count: int) -> Iterator[tuple[str, ...]]:
    for first in range(0, count, AT_ONCE):
        yield tuple(f"c{number}" for number in range(first, first + AT_ONCE))


@virtually
async def test_c38_of_hundreds_of_clusters_that_came_and_went_nothing_is_remembered() -> None:
    async with operated(Settings(enable_metrics=True), nodes=10) as op:
        await asyncio.sleep(1)
        held, lines = cached(op), len(op.manager.registry.render().splitlines())
        for names in names_of(PASSING):
            for name in names:
                await op.create(name, groups=[group(replicas=1)])
            for name in names:
                await op.until_ready(name)
            assert op.manager.registry.render().count("kuberay_cluster_info{") == AT_ONCE
            for name in names:
                await lose_worker(op, name)
            await until(lambda: remembered(op), seconds=5)
            for name in names:
                await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, name))
            for name in names:
                await op.cluster.until_gone(RAY_CLUSTERS, name, NAMESPACE)
        await asyncio.sleep(900)
        assert cached(op) == held
        assert len(op.manager.freshness) == 0
        assert remembered(op) == {}
        text = op.manager.registry.render()
        assert "kuberay_cluster_info{" not in text
        # Families have one line for each controller and resource, never one for each object.
        assert len(text.splitlines()) - lines < 100


async def lose_worker(op: Operated, name: str) -> None:
    [worker] = await op.pods(name, "worker")
    await op.client.delete(PODS, Key(NAMESPACE, worker["metadata"]["name"]), grace_seconds=0)


def remembered(op: Operated) -> dict[Key, Any]:
    """What the controller itself keeps of clusters, beside its caches."""
    [controller] = op.manager._controllers
    found: dict[Key, Any] = getattr(controller._reconcile, "__self__")._held_since  # noqa: B009
    return found


def asked(manager: Manager) -> int:
    """How many dashboards are asked, again and again."""
    [watch] = [run.__self__ for name, run in manager._services if name.endswith(" polling")]  # type: ignore[attr-defined]
    return len(watch)


def series(manager: Manager, family: str) -> list[str]:
    return [one for one in manager.registry.render().splitlines() if one.startswith(family)]


@virtually
async def test_c38_of_services_that_came_and_went_nothing_is_remembered() -> None:
    measured = Settings(enable_metrics=True)
    async with (
        services.a_scenario(settings=measured) as scenario,
        services.operator(scenario) as manager,
    ):
        keys = [Key(NAMESPACE, f"s{number}") for number in range(PARENTS)]
        for key in keys:
            await scenario.create(key.name)
        for key in keys:
            await scenario.until(
                lambda one: services.condition(one, "Ready")[0] == "True", 600, key=key
            )
        assert asked(manager) == PARENTS
        assert len(series(manager, "kuberay_service_info{")) == PARENTS
        for key in keys:
            await scenario.client.delete(RAY_SERVICES, key)
        for key in keys:
            await scenario.until_gone(key)
        await asyncio.sleep(900)
        assert asked(manager) == 0
        assert series(manager, "kuberay_service_info{") == []
        assert len(manager.freshness) == 0
        assert {one.resource.plural for one in manager._informers.values() if len(one)} <= {
            "serviceaccounts",
            "services",  # that of Kubernetes itself
        }


@virtually
async def test_c38_of_jobs_that_came_and_went_nothing_is_remembered() -> None:
    measured = Settings(enable_metrics=True)
    async with jobs.a_scenario() as scenario, jobs.operator(scenario, settings=measured) as manager:
        keys = [Key(NAMESPACE, f"j{number}") for number in range(PARENTS)]
        for key in keys:
            await scenario.create(key.name, submissionMode="HTTPMode", backoffLimit=1)
        for key in keys:
            job = await scenario.until(lambda one: one.status.job_status == "RUNNING", key=key)
            scenario.end(job, "FAILED")
            await scenario.until(lambda one: one.status.job_deployment_status == "Running", key=key)
        assert asked(manager) == PARENTS
        assert len(series(manager, "kuberay_job_info{")) == PARENTS
        for key in keys:
            await scenario.client.delete(RAY_JOBS, key)
        await scenario.until_gone(300)
        await asyncio.sleep(900)
        assert asked(manager) == 0
        assert series(manager, "kuberay_job_") == []


@virtually
async def test_c41_hundreds_of_idle_clusters_ask_for_nothing_but_their_watches() -> None:
    async with operated(nodes=10) as op:
        for names in names_of(CLUSTERS):
            for name in names:
                await op.create(name, groups=[])
            for name in names:
                await op.until_ready(name)
        await asyncio.sleep(5)
        before = len([one for one in op.faults.log if not one.watch])
        done = rounds(op)
        await asyncio.sleep(1200)  # four resyncs of each
        assert rounds(op) != done
        assert len([one for one in op.faults.log if not one.watch]) == before
