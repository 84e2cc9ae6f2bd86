"""`svc/NAME` where a command wants a Pod: heads have names that nobody should have to type."""

from __future__ import annotations

import pytest

from manta.api.meta import Key
from manta.api.resources import PODS, SERVICES
from manta.api.usage import UsageError
from manta.cli.logs import pod_key
from manta.kube.errors import NotFound
from support.fakenodes import FakeCluster, a_pod_manifest, fake_cluster
from support.virtual import virtually


async def serve(cluster: FakeCluster, selector: dict[str, str] | None) -> None:
    spec = {"ports": [{"port": 1}], **({"selector": selector} if selector else {})}
    body = {"metadata": {"name": "one", "namespace": "default"}, "spec": spec}
    await cluster.client.create(SERVICES, "default", body)


@virtually
async def test_a_service_leads_to_its_ready_pod() -> None:
    async with fake_cluster(1) as cluster:
        await serve(cluster, {"app": "one"})
        for name, script in (("a-not-ready", "start=never"), ("b-ready", "")):
            pod = a_pod_manifest(name, script)
            pod["metadata"]["labels"] = {"app": "one"}
            await cluster.client.create(PODS, "default", pod)
        await cluster.until(lambda: cluster.is_true(PODS, "b-ready", "Ready"))
        assert await pod_key(cluster.client, "default", "svc/one") == Key("default", "b-ready")
        assert await pod_key(cluster.client, "default", "pod/x") == Key("default", "x")
        assert await pod_key(cluster.client, "default", "x") == Key("default", "x")


@virtually
async def test_what_leads_nowhere_is_said() -> None:
    async with fake_cluster(1) as cluster:
        await serve(cluster, {"app": "one"})
        with pytest.raises(UsageError, match="has no Pod"):
            await pod_key(cluster.client, "default", "svc/one")
        with pytest.raises(UsageError, match="not one of"):
            await pod_key(cluster.client, "default", "something/one")
        with pytest.raises(NotFound):
            await pod_key(cluster.client, "default", "svc/other")


@virtually
async def test_a_service_without_a_selector_names_no_pod() -> None:
    async with fake_cluster(1) as cluster:
        await serve(cluster, None)
        with pytest.raises(UsageError, match="no selector"):
            await pod_key(cluster.client, "default", "svc/one")
