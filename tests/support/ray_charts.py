"""The charts ray-cluster, ray-service and ray-job on the operator fixture, by Helm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.helm import ROOT, helm
from support.operator_fixture import TAINT, OperatorFixture

Json = dict[str, Any]


def group_values(operated: OperatorFixture) -> Json:
    """Values of a head or worker group whose Pods run on our fake nodes, and on no other."""
    return {
        "nodeSelector": {TAINT: operated.namespace},
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
        "podSpec": {"terminationGracePeriodSeconds": 1},
        "resources": {"limits": None, "requests": {"cpu": "10m", "memory": "16Mi"}},
    }


@dataclass
class RayRelease:
    operated: OperatorFixture
    chart: Path
    name: str
    values: Path

    async def helm(self, verb: str, *arguments: str | Path) -> str:
        """In a thread: the fake nodes and the plane live in this one."""
        done = await asyncio.to_thread(
            helm,
            *(verb, self.name, *arguments, "-n", self.operated.namespace),
            kubeconfig=self.operated.kubeconfig,
        )
        return str(done.stdout)

    async def install(self, *options: str, verb: str = "install") -> str:
        return await self.helm(verb, self.chart, "-f", self.values, *options)

    async def upgrade(self, *options: str) -> str:
        return await self.install(*options, verb="upgrade")


@asynccontextmanager
async def ray_release(
    operated: OperatorFixture, chart: str, name: str
) -> AsyncIterator[RayRelease]:
    """A release to install, whose object is called as the release. It is gone at the end."""
    head = {**group_values(operated), "ports": operated.dashboards.ports}
    values = {"fullnameOverride": name, "head": head, "worker": group_values(operated)}
    file = operated.directory / f"{name}.values.yaml"
    file.write_text(yaml.safe_dump(values))
    release = RayRelease(operated, ROOT / "charts" / chart, name, file)
    try:
        yield release
    finally:
        await release.helm("uninstall", "--ignore-not-found")
