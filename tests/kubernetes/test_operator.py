"""The operator as a process: it can be killed, doubled and replaced, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS, SERVICES
from support.operator_fixture import OperatorFixture, OperatorProcess
from support.operator_objects import a_cluster
from support.raycluster import group

Json = dict[str, Any]


def is_ready(status: Json) -> bool:
    return bool(status.get("state") == "ready")


async def versions(operator_fixture: OperatorFixture, name: str) -> dict[str, str]:
    """Of the cluster and everything that it owns."""
    found = [await operator_fixture.get(RAY_CLUSTERS, name)]
    for resource in (PODS, SERVICES):
        found += await operator_fixture.all(resource, f"ray.io/cluster={name}")
    return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in found if one}


@pytest.mark.timeout(240)
async def test_a_killed_leader_is_replaced_and_its_successor_finds_everything_in_order(
    operated: OperatorFixture, leader: OperatorProcess, name: str
) -> None:
    async with operated.operator() as second:
        await operated.make(RAY_CLUSTERS, a_cluster(operated, name, groups=[group(replicas=3)]))
        await operated.until(RAY_CLUSTERS, name, is_ready)
        await asyncio.sleep(1)
        before = await versions(operated, name)
        await leader.kill()
        try:
            await second.until_leading()
            await asyncio.sleep(2)
            assert await versions(operated, name) == before
            at = "/spec/workerGroupSpecs/0/replicas"
            await operated.edit(RAY_CLUSTERS, name, [{"op": "replace", "path": at, "value": 4}])
            await operated.until_pods(4, name)
        finally:
            await leader.start()
    await leader.until_leading()
