"""Edits of the head's ports on a server that refuses a port twice: the cluster goes on, and its
Services lead to what the head listens on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import SERVICES
from support.kuberay import RELEASES
from support.raycluster import NAMESPACE, container, ray_cluster, template
from support.rayoperator import Operated, operated
from support.takeover import Scenario, a_scenario
from support.virtual import virtually

SERVICE = Key(NAMESPACE, "demo-head-svc")


def head(*ports: tuple[str, int], **fields: Any) -> dict[str, Any]:
    declared = [{"name": name, "containerPort": number} for name, number in ports]
    return {"template": template(container(ports=declared)), **fields}


async def ports(scenario: Operated | Scenario) -> dict[str, dict[str, Any]]:
    found = await scenario.client.get(SERVICES, SERVICE)
    return {one["name"]: one for one in found["spec"]["ports"]}


@pytest.mark.parametrize("type_", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_a_renamed_port_stops_nothing(type_: str) -> None:
    @virtually
    async def story() -> None:
        async with operated() as op:
            first = head(("web", 8265), ("extra", 9000), serviceType=type_)
            await op.create(head=first)
            await op.until_ready()
            before = await ports(op)
            by_hand = [{"op": "add", "path": "/spec/ports/-", "value": {"name": "mine", "port": 7}}]
            await op.client.patch(SERVICES, SERVICE, by_hand, kind="json")
            then = head(("dashboard", 8265), serviceType=type_)
            await op.patch({"spec": {"headGroupSpec": then}})
            await op.scale(3)
            await op.until_pods(3)
            after = await ports(op)
            # The head that runs was made with `extra`, and still listens on it (R1).
            assert set(after) == {"dashboard", "extra", "metrics", "mine"}
            assert after["dashboard"].get("nodePort") == before["web"].get("nodePort")
            writes = op.writes("/services")
            await asyncio.sleep(900)
            assert op.writes("/services") == writes

    story()


@virtually
async def test_ports_that_were_edited_under_kuberay_are_taken_over() -> None:
    async with a_scenario(RELEASES[-1]) as scenario:
        await scenario.kuberay.cluster(ray_cluster())
        before = await ports(scenario)
        # KubeRay makes its Services once: this edit has not reached them.
        edited = {"spec": {"headGroupSpec": head(("ui", 8265), ("gcs-server", 6379))}}
        await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, "demo"), edited)
        async with scenario.taken_over() as faults:
            after = await ports(scenario)
            assert set(after) == set(before) - {"dashboard"} | {"ui"}
            quiet = len(faults.accepted_writes())
            await scenario.client.patch(
                RAY_CLUSTERS, Key(NAMESPACE, "demo"), [_scaled(2)], kind="json"
            )
            await asyncio.sleep(30)
            assert len(faults.accepted_writes()) > quiet
            assert len(faults.accepted_writes("/pods")) == 1


def _scaled(replicas: int) -> dict[str, Any]:
    return {"op": "add", "path": "/spec/workerGroupSpecs/0/replicas", "value": replicas}
