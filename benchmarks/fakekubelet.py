"""Fake nodes in a process of their own, for a server that has none: KUBECONFIG COUNT.

Pods run and are ready 0.2 s after they were bound, as on the embedded server's own fake nodes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import uvloop

from manta.kube.client import Client
from manta.kube.credentials import load
from manta.kube.transport import HttpTransport
from manta.localplane.fakenodes.kubelet import FakeNodes
from manta.localplane.fakenodes.machines import FakeNodeOptions
from manta.runtime.clock import SystemClock
from manta.runtime.manager import Manager


async def main(kubeconfig: Path, count: int) -> None:
    manager = Manager(Client(HttpTransport(load(kubeconfig))), SystemClock(), Random())
    FakeNodes(manager, FakeNodeOptions(count=count))
    await manager.run()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
