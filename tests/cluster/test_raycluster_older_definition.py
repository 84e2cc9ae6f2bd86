"""The CRDs of an older release are put back under running RayClusters: no Pod is lost to that.

The server keeps the newer fields until somebody writes the object, and tells nobody of them. Which fields
cost what is asked of the planners alone, one by one: tests/unit/controllers/raycluster/test_pruned_fields.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from manta.rules.settings import FeatureGates, Settings
from support.fakenodes import FakeCluster, fake_cluster
from support.raycluster import NAMESPACE, group
from support.raycrds import ray_crds
from support.rayoperator import Operated, start_operator
from support.virtual import virtually

GATES = Settings(gates=FeatureGates(ray_cluster_network_policy=True))
CRD = Key("", "rayclusters.ray.io")
UNKNOWN = ("networkPolicy", "tlsOptions", "historyServerOptions", "upgradeStrategy", "authOptions")
UNKNOWN_OF_GROUPS = ("priority", "labels", "resources", "idleTimeoutSeconds", "suspend")


async def put_back(cluster: FakeCluster) -> None:
    """The definition of KubeRay 1.2, as far as it matters here."""
    crd = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, CRD)
    for version in crd["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        groups = spec["workerGroupSpecs"]["items"]["properties"]
        for fields, unknown in ((spec, UNKNOWN), (groups, UNKNOWN_OF_GROUPS)):
            for name in unknown:
                fields.pop(name, None)
    await cluster.client.replace(CUSTOM_RESOURCE_DEFINITIONS, CRD, crd)


async def pods_of(op: Operated) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in await op.pods()}


def without_version(found: Any) -> Any:
    return {key: value for key, value in found["metadata"].items() if key != "managedFields"}


@virtually
async def test_an_operator_under_an_older_definition_loses_no_pod() -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster:
        async with start_operator(cluster, GATES) as op:
            shape = {"labels": {"zone": "a"}, "resources": {"CPU": "2"}}
            await op.create(
                groups=[group("a", replicas=2, **shape), group("b", replicas=1, **shape)],
                upgradeStrategy={"type": "Recreate"},
                authOptions={"mode": "token"},
                networkPolicy={"mode": "DenyAllIngress"},
            )
            await op.until_ready()
            before = await pods_of(op)
        newer = await cluster.client.get(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await put_back(cluster)
        older = await cluster.client.get(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        assert not {"authOptions", "networkPolicy", "upgradeStrategy"} & older["spec"].keys()
        assert without_version(older) == without_version(newer)

        async with start_operator(cluster, GATES, seed=8) as op:
            await asyncio.sleep(700)  # two resyncs
            assert await pods_of(op) == before
            await op.patch(
                {"metadata": {"labels": {"touched": "yes"}}}
            )  # now they are gone for good
            await asyncio.sleep(700)
            assert await pods_of(op) == before
            assert (op.pod_creates(), op.pod_deletes()) == (0, 0)
