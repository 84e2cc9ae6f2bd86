"""The seam below the client: cheap to import, closed for good."""

from __future__ import annotations

import subprocess
import sys

import pytest

from manta.kube.cluster import Cluster
from manta.kube.connect import connect
from manta.kube.errors import Unreachable
from manta.kube.transport import HttpTransport, Request

HEAVY = ("aiohttp", "yarl", "yaml", "cryptography")


def test_importing_the_room_loads_nothing_heavy() -> None:
    rooms = "import manta.kube.client, manta.kube.config, manta.kube.connect, sys"
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


REQUEST_WITHOUT_A_PROXY = """
import asyncio, sys
from manta.kube.cluster import Cluster
from manta.kube.transport import HttpTransport, Request

async def main():
    transport = HttpTransport(Cluster("https://127.0.0.1:1"))
    try:
        await transport.send(Request("GET", "/"))
    except Exception as error:
        print(type(error).__name__, "aiohttp" in sys.modules)
    await transport.close()

asyncio.run(main())
"""


def test_a_request_without_a_proxy_loads_no_http_library() -> None:
    command = [sys.executable, "-c", REQUEST_WITHOUT_A_PROXY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Unreachable", "False"]
