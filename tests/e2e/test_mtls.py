"""Mutual TLS with real Ray: who has no certificate of this cluster is not let in.

cert-manager's part is played by `support/certmanager.py`, with real certificates.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.conftest import Machine
from e2e.objects import cluster
from manta.kube.config import load
from manta.kube.connect import connect
from support.certmanager import CertManager, cert_manager_crds

pytestmark = pytest.mark.embedded_only(reason="a plane with a feature of its own")

TASK = (
    "import ray; ray.init(logging_level='error');"
    "f = ray.remote(num_cpus=1)(lambda: 7); print('answer', ray.get(f.remote(), timeout=60))"
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("m", numbered=True))
    machine.manta("up", "--cpus", "8", "--feature-gates", "RayClusterMTLS=true")
    try:
        machine.apply(*cert_manager_crds())
        _restart_operator(machine)
        with _issuing(machine):
            yield machine
    finally:
        machine.manta("down", "--purge", check=False)


def _restart_operator(machine: Machine) -> None:
    """It looks once, at its start, whether cert-manager is there."""
    before = machine.operators()
    machine.kill_operator()
    machine.until("another operator", lambda: set(machine.operators()) - set(before), 60)


@contextmanager
def _issuing(machine: Machine) -> Iterator[None]:
    """In a thread of its own, because the tests wait for commands."""
    over = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_issue(machine, over)))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def _issue(machine: Machine, over: threading.Event) -> None:
    client = await connect(load([machine.directory / "kubeconfig"]))
    issuer = asyncio.create_task(CertManager(client).run())
    try:
        while not over.is_set() and not issuer.done():
            await asyncio.sleep(0.2)
    finally:
        issuer.cancel()
        await asyncio.gather(issuer, return_exceptions=True)
        await client.close()
        await asyncio.sleep(1)  # the watch that was cut off says goodbye to the server, unawaited


def test_c87_a_cluster_with_certificates_works_and_refuses_plain_connections(
    machine: Machine,
) -> None:
    machine.apply(
        cluster("sealed", head={"rayStartParams": {"num-cpus": "0"}}, tlsOptions={"enabled": True})
    )
    machine.cluster_ready("sealed")
    [head] = machine.list("pods", "ray.io/cluster=sealed,ray.io/node-type=head")
    name, address = head["metadata"]["name"], f"{head['status']['podIP']}:6379"
    assert "answer 7" in machine.exec(name, "python", "-c", TASK)
    check = ["ray", "health-check", "--address", address]
    machine.exec(name, *check)
    plain = machine.manta("exec", name, "--", "env", "RAY_USE_TLS=0", *check, check=False)
    assert plain.returncode != 0
    machine.manta("delete", "raycluster", "sealed")
