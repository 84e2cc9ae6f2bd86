"""The seam below the client: cheap to import, closed for good."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from manta.kube.cluster import Cluster
from manta.kube.connect import connect
from manta.kube.errors import Unreachable
from manta.kube.transport import HttpTransport, Request
from support.certificates import Authority

HEAVY = ("aiohttp", "yarl", "yaml", "cryptography")


def test_importing_the_room_loads_nothing_heavy() -> None:
    rooms = "import manta.kube.client, manta.kube.credentials, manta.kube.connect, sys"
    code = f"{rooms}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_closed_transport_sends_nothing() -> None:
    transport = HttpTransport(Cluster("https://127.0.0.1:1"))
    await transport.close()
    with pytest.raises(Unreachable, match="is closed") as caught:
        await transport.send(Request("GET", "/"))
    assert not caught.value.sent


async def test_connecting_sends_nothing_yet() -> None:
    client = await connect(Cluster("https://127.0.0.1:1"))
    assert isinstance(client.transport, HttpTransport)
    await client.close()


KNOWN_AUTHORITIES = """
import asyncio, ssl
from manta.kube.cluster import Cluster
from manta.kube.tls import client_context
from manta.kube.transport import HttpTransport, Request

async def main():
    transport = HttpTransport(Cluster("https://127.0.0.1:1"))
    try:
        await transport.send(Request("GET", "/"))
    except Exception as error:
        print(type(error).__name__)
    await transport.close()

asyncio.run(main())
from aiohttp import connector
for context in (connector._SSL_CONTEXT_VERIFIED, client_context(Cluster("https://a"))):
    print(context.verify_mode.name, context.cert_store_stats()["x509"])
"""


def test_the_authorities_of_the_machine_are_read_for_our_contexts_only(tmp_path: Path) -> None:
    known = tmp_path / "authorities.pem"
    known.write_bytes(Authority().pem)
    done = subprocess.run(
        [sys.executable, "-c", KNOWN_AUTHORITIES],
        env={**os.environ, "SSL_CERT_FILE": str(known), "SSL_CERT_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["Unreachable", "CERT_REQUIRED 0", "CERT_REQUIRED 1"]
