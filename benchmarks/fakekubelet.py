"""Fake nodes in a process of their own, for a server that has none: KUBECONFIG COUNT.

Pods run and are ready 0.2 s after they were bound, as on the embedded server's own fake nodes. They are
bound here, to one node after the other: KubeRay's figures were recorded without kube-scheduler.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from random import Random

import uvloop

from manta.api.meta import Object, ObjectMeta
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.errors import Conflict, NotFound
from manta.kube.transport import HttpTransport
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.runtime.clock import SystemClock
from manta.runtime.manager import Manager

UNBOUND = "spec.nodeName="


async def bind_all(client: Client, nodes: Iterable[str]) -> None:
    turns = itertools.cycle(nodes)
    async with asyncio.TaskGroup() as binding:
        while True:
            watch = client.watch(PODS, into=Object, fields=UNBOUND, initial_events=True)
            async with aclosing(watch) as events:
                async for event in events:
                    if event.type == "ADDED":
                        binding.create_task(_bind(client, event.object.metadata, next(turns)))


async def _bind(client: Client, pod: ObjectMeta, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    try:
        await client.create(PODS, pod.namespace, body, subresource=(pod.name, "binding"))
    except (Conflict, NotFound):
        return  # bound before, or gone by now


async def main(kubeconfig: Path, count: int) -> None:
    client = Client(HttpTransport(load(kubeconfig)))
    manager = Manager(client, SystemClock(), Random())
    options = FakeNodeOptions(count=count)
    FakeNodes(manager, options)
    async with asyncio.TaskGroup() as both:
        both.create_task(manager.run())
        both.create_task(bind_all(client, options.names()))


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
