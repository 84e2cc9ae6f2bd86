"""The whole operator in one process, on the embedded server, under virtual time."""

from __future__ import annotations

import argparse
import asyncio
import logging
from random import Random

import pytest

from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.errors import CredentialsError
from manta.operator.options import Options, add_flags, options_from
from manta.operator.platform import Platform, detect, detect_with_retries, missing_crds
from manta.operator.process import assemble, introduction, new_manager, unsupported
from manta.rules.settings import FeatureGates
from manta.runtime.manager import Manager
from support.faults import everything
from support.plane import MemoryPlane
from support.raycrds import ray_crds
from support.raycronjob import NAMESPACE, children, ray_cron_job
from support.virtual import faulty, running, virtual_plane, virtually


def options(*flags: str) -> Options:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return options_from(parser.parse_args(flags), {})


def an_operator(plane: MemoryPlane, client: Client, platform: Platform, *flags: str) -> Manager:
    manager = new_manager(client, plane.clock, Random(1), options(*flags))
    assemble(manager, options(*flags), platform)
    return manager


async def install(plane: MemoryPlane) -> None:
    for crd in ray_crds():
        await plane.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)


def test_missing_crds_are_named_and_awaited(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            client = Client(faulty(plane))
            platform = await detect(client)
            manager = an_operator(plane, client, platform)
            async with running(manager.run()):
                await asyncio.sleep(120)
                assert not manager.ready
                assert any(
                    "raycronjobs.ray.io is not installed" in one for one in manager.watch_errors
                )
                await install(plane)
                await asyncio.sleep(120)
                assert manager.ready
                await plane.client.create(RAY_CRON_JOBS, NAMESPACE, ray_cron_job())
                await asyncio.sleep(121)
                assert len(await children(plane)) == 2

    with caplog.at_level(logging.INFO):
        story()
    said = [one.getMessage() for one in caplog.records if "not installed:" in one.getMessage()]
    assert len(said) <= 2
    assert "rayclusters.ray.io, rayjobs.ray.io" in said[0]
    assert "manta crds | kubectl apply --server-side -f -" in said[0]
    assert "all CRDs are installed" in caplog.text


def test_crds_that_come_with_the_operator_are_found_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """E8: after `helm --wait` the log still said for 30 s that they were not installed."""

    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            client = Client(faulty(plane))
            manager = an_operator(plane, client, await detect(client))
            async with running(manager.run()):
                await asyncio.sleep(2)
                await install(plane)
                await asyncio.sleep(3)
                assert manager.ready

    with caplog.at_level(logging.INFO):
        story()
    assert "not installed:" not in caplog.text


def test_crds_that_come_later_are_noticed_within_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """E8."""

    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            client = Client(faulty(plane))
            manager = an_operator(plane, client, await detect(client))
            async with running(manager.run()):
                await asyncio.sleep(300)
                await install(plane)
                await asyncio.sleep(8)
                assert manager.ready

    with caplog.at_level(logging.INFO):
        story()
    assert "not installed:" in caplog.text
    assert "all CRDs are installed" in caplog.text


@virtually
async def test_a_server_that_is_gone_at_the_start_is_waited_for() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.go_down()
        asking = asyncio.create_task(detect_with_retries(Client(faults), Random(1)))
        await asyncio.sleep(600)
        assert not asking.done()
        assert len(faults.log) < 300
        faults.come_back()
        platform = await asyncio.wait_for(asking, 60)
        assert not platform.openshift


@virtually
async def test_broken_credentials_are_not_waited_for() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.break_with(everything, CredentialsError("the token file is gone"))
        with pytest.raises(CredentialsError, match="the token file is gone"):
            await detect_with_retries(Client(faults), Random(1))


@virtually
async def test_the_crds_that_are_missing_are_counted_one_by_one() -> None:
    async with virtual_plane() as plane:
        assert len(await missing_crds(plane.client)) == 4
        await install(plane)
        assert await missing_crds(plane.client) == ()


@virtually
async def test_a_gate_off_means_no_controller() -> None:
    async with virtual_plane(ray_crds()) as plane:
        platform = await detect(plane.client)
        manager = an_operator(plane, plane.client, platform, "--feature-gates=RayCronJob=false")
        async with running(manager.run()):
            await plane.client.create(RAY_CRON_JOBS, NAMESPACE, ray_cron_job())
            await asyncio.sleep(200)
            assert await children(plane) == []
        assert 'name="raycronjob-controller"' not in manager.registry.render()


@virtually
async def test_the_informer_that_is_begun_early_is_the_one_that_controllers_use() -> None:
    async with virtual_plane(ray_crds()) as plane:
        manager = new_manager(plane.client, plane.clock, Random(1), options())
        early = manager.informer(RAY_CLUSTERS, RayCluster)
        manager.start_informer(early)
        assemble(manager, options(), await detect(plane.client))
        async with running(manager.run()):
            await early.synced.wait()
            informers = [one for one in manager._informers if one[0] == RAY_CLUSTERS]
            assert len(informers) == 1


def test_the_first_line_says_who_runs_where_and_for_what() -> None:
    platform = Platform((1, 35), openshift=False, cert_manager=False)
    flags = ("--feature-gates=RayCronJob=false", "--watch-namespace=a,b")
    said = introduction(Cluster("https://server:6443"), options(*flags), platform)
    assert "on https://server:6443 (Kubernetes 1.35)" in said
    assert said.endswith("for raycluster, rayjob, rayservice, idlesuspend in a, b")


@virtually
async def test_a_gate_that_needs_a_newer_server_stops_the_start() -> None:
    async with virtual_plane() as plane:
        platform = await detect(plane.client)
        gates = FeatureGates(sidecar_submitter_restart=True)
        assert unsupported(platform, FeatureGates()) is None
        if platform.version < (1, 35):
            assert "1.35" in str(unsupported(platform, gates))
        else:
            assert unsupported(platform, gates) is None


@virtually
async def test_gangs_of_kubernetes_need_a_server_that_serves_workloads() -> None:
    gates = FeatureGates(kubernetes_was=True)
    async with virtual_plane() as plane:
        assert "scheduling.k8s.io/v1alpha2" in str(unsupported(await detect(plane.client), gates))
    assert unsupported(Platform((1, 36), False, False, workloads=True), gates) is None
