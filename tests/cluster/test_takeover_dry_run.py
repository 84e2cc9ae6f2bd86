"""`manta doctor --migrate` on objects that KubeRay left: it prints the changes to come and makes none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import DEPLOYMENTS, PODS
from manta.cli.checks.migration import migrate
from support.kuberay import RELEASES, Release
from support.raycluster import NAMESPACE, group, ray_cluster
from support.takeover import Scenario, a_job, a_scenario, a_service
from support.virtual import virtually

NOTHING = "0 Pods deleted, 0 created; 0 new clusters; 0 jobs submitted."


async def said(scenario: Scenario, *namespaces: str) -> tuple[str, int]:
    await asyncio.sleep(5)
    before = await scenario.client.list(PODS, NAMESPACE)
    text, code = await migrate(scenario.client, scenario.plane.clock, namespaces)
    after = await scenario.client.list(PODS, NAMESPACE)
    assert before.items == after.items
    return text, code


@pytest.mark.parametrize("release", RELEASES, ids=lambda one: one.version)
def test_every_object_is_resumed(release: Release) -> None:
    @virtually
    async def story() -> None:
        async with a_scenario(release) as scenario:
            await scenario.kuberay.cluster(ray_cluster("mine", groups=[group(replicas=2)]))
            service, _ = await a_service(scenario)
            await scenario.kuberay.service_status(service, "demo-old")
            text, code = await said(scenario)
            assert code == 0, text
            assert NOTHING in text
            assert "RayCluster   default/mine       " in text
            assert "RayService   default/demo       " in text

    story()


STOPPED = {
    "metadata": {"name": "kuberay-operator", "namespace": NAMESPACE},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "kuberay"}},
        "template": {
            "metadata": {"labels": {"app": "kuberay"}},
            "spec": {
                "containers": [
                    {
                        "name": "operator",
                        "image": "registry.example/kuberay/operator:v1.7.0",
                        "command": ["/manager"],
                        "args": ["-feature-gates=RayClusterNetworkPolicy=true"],
                    }
                ]
            },
        },
    },
}


@virtually
async def test_the_dry_run_has_the_settings_of_the_kuberay_that_was_stopped() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        closed: dict[str, Any] = {"networkPolicy": {"mode": "DenyAll"}}
        await scenario.kuberay.cluster(ray_cluster("mine", **closed))
        text, _ = await said(scenario)
        assert "create networkpolicies/" not in text
        assert "Settings for all namespaces: the defaults" in text
        await scenario.client.create(DEPLOYMENTS, NAMESPACE, STOPPED)
        for namespaces in ((), (NAMESPACE,)):
            text, code = await said(scenario, *namespaces)
            assert code == 0
            assert "create networkpolicies/" in text
            assert f"Deployment {NAMESPACE}/kuberay-operator" in text


@virtually
async def test_a_running_job_is_not_submitted_by_a_dry_run() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        await a_job(scenario, "HTTPMode")
        text, code = await said(scenario)
        assert (code, scenario.submissions()) == (0, [])
        assert NOTHING in text


@virtually
async def test_what_will_be_deleted_is_named() -> None:
    """KubeRay leaves the Pods of a worker group that is gone; Manta does not."""
    async with a_scenario(RELEASES[-1]) as scenario:
        await scenario.kuberay.cluster(ray_cluster(groups=[group(), group("gone", 1)]))
        body = [{"op": "remove", "path": "/spec/workerGroupSpecs/1"}]
        await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, "demo"), body, kind="json")
        text, _ = await said(scenario)
        assert "delete pods/demo-gone-worker-" in text
        assert text.count("delete pods/") == 1
        assert "1 Pods deleted, 0 created" in text


def an_operator(*args: str, replicas: int = 1) -> dict[str, object]:
    container = {"name": "kuberay-operator", "image": "quay.io/kuberay/operator:v1.7.0"}
    labels = {"app": "kuberay"}
    return {
        "metadata": {"name": "kuberay-operator"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container | {"args": list(args)}]},
            },
        },
    }


@virtually
async def test_beside_a_live_kuberay_it_is_refused_with_the_cure() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        await scenario.client.create(DEPLOYMENTS, "default", an_operator())
        text, code = await said(scenario)
        assert code == 1
        assert text.startswith("Refused: a KubeRay operator runs")
        assert "kubectl -n default scale deployment kuberay-operator --replicas=0" in text


@virtually
async def test_a_kuberay_of_other_namespaces_or_one_that_is_stopped_is_no_obstacle() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        await scenario.kuberay.cluster(ray_cluster())
        await scenario.client.create(DEPLOYMENTS, "default", an_operator("--watch-namespace=a,b"))
        assert (await said(scenario, "default"))[1] == 0
        assert (await said(scenario, "b"))[1] == 1
        await scenario.client.patch(
            DEPLOYMENTS, Key("default", "kuberay-operator"), {"spec": {"replicas": 0}}
        )
        assert (await said(scenario, "b"))[1] == 0


@virtually
async def test_where_there_is_nothing_there_is_nothing_to_do() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        assert await said(scenario) == ("There are no Ray objects: nothing to migrate.", 0)
