"""Our examples and KubeRay's samples of RayServices: accepted, valid, and made to serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from support.peers import kuberay_samples
from support.raycluster import NAMESPACE
from support.rayservice import GATEWAY_CRDS, a_scenario, accept_routes, is_ready, operator
from support.virtual import running, virtually

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("rayservice*.yaml"))
SAMPLES = kuberay_samples("ray-service")


def services(path: Path) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all(path.read_text())
    return [one for one in documents if one["kind"] == "RayService"]


@pytest.mark.parametrize("path", [*EXAMPLES, *SAMPLES], ids=lambda path: path.name)
@virtually
async def test_it_comes_up(path: Path) -> None:
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        for one in services(path):
            await scenario.client.create(RAY_SERVICES, NAMESPACE, one)
            await scenario.until(is_ready, key=Key(NAMESPACE, one["metadata"]["name"]))


def test_there_are_examples() -> None:
    assert {"rayservice.yaml", "rayservice-incremental.yaml"} <= {path.name for path in EXAMPLES}
