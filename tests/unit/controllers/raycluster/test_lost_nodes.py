"""Which answers about a Node prove that it runs no Pod any more (R24)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest

from manta.api.meta import Key
from manta.api.times import format_time
from manta.controllers.raycluster.lost_nodes import LostNodes
from manta.kube.client import Client
from manta.kube.errors import Forbidden, MantaError, NotFound
from support.raycluster import ray_cluster
from support.raycluster_scenario import Scenario, decode


@dataclass
class Server:
    """Answers every request for a Node with this error."""

    error: MantaError
    asked: list[str] = field(default_factory=list)

    async def get(self, _resource: object, key: Key, **_: Any) -> Any:
        self.asked.append(key.name)
        raise self.error


def stuck() -> Scenario:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    [head] = scenario.heads()
    head["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    scenario.now += timedelta(minutes=1)
    return scenario


def lost_nodes(error: MantaError) -> LostNodes:
    return LostNodes(cast("Client", Server(error)))


async def test_a_node_that_the_server_does_not_have_is_lost() -> None:
    missing = NotFound(404, "NotFound", 'nodes "n1" not found', {"name": "n1", "kind": "nodes"})
    assert await lost_nodes(missing).of(stuck().snapshot()) == {"n1": "Node n1 no longer exists"}


async def test_a_404_of_something_before_the_server_proves_nothing() -> None:
    """A load balancer or proxy says so too. The head may run on: a second one would split the cluster."""
    for details in ({}, {"kind": "nodes"}):
        page = NotFound(404, "", "404 page not found", details)
        assert await lost_nodes(page).of(stuck().snapshot()) == {}


async def test_a_missing_permission_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An operator for single namespaces may not read Nodes, and a Pod may be stuck for days."""
    nodes, scenario = lost_nodes(Forbidden(403, "Forbidden", "nodes is forbidden")), stuck()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert await nodes.of(scenario.snapshot()) == {}
            scenario.now += timedelta(minutes=1)
    assert len(caplog.records) == 1
    assert "n1" in caplog.text
