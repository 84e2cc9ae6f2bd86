"""Cluster DNS for one node: A records of Services and of the Pods behind headless ones.

python -m tools.kubernetes.node.dns KUBECONFIG ADDRESS
"""

from __future__ import annotations

import asyncio
import struct
import sys
from pathlib import Path
from typing import Any

from manta.api.resources import ENDPOINT_SLICES, SERVICES, Resource
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.errors import MantaError
from manta.kube.transport import HttpTransport

DOMAIN = ".svc.cluster.local"
SECONDS = 5
Json = dict[str, Any]


class Names:
    """What is known of Services and EndpointSlices."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Json]] = {"services": {}, "endpointslices": {}}

    async def follow(self, client: Client, resource: Resource) -> None:
        while True:
            try:
                async for event in client.watch(resource, initial_events=True):
                    self._see(resource, event.type, event.object)
            except MantaError as error:
                print(f"{resource.plural}: {error}", flush=True)
            await asyncio.sleep(1)

    def _see(self, resource: Resource, type_: str, one: Json) -> None:
        known = self.known[resource.plural]
        if type_ == "DELETED":
            known.pop(one["metadata"]["uid"], None)
        elif type_ in ("ADDED", "MODIFIED"):
            known[one["metadata"]["uid"]] = one

    def addresses(self, name: str) -> list[str] | None:
        """None: there is no such name."""
        if not name.endswith(DOMAIN):
            return None
        parts = name.removesuffix(DOMAIN).split(".")
        if len(parts) != 2:
            return None
        for service in self.known["services"].values():
            meta = service["metadata"]
            if [meta["name"], meta["namespace"]] == parts:
                address = service["spec"].get("clusterIP", "")
                return self._behind(*parts) if address == "None" else [address]
        return None

    def _behind(self, service: str, namespace: str) -> list[str]:
        label = "kubernetes.io/service-name"
        return [
            address
            for one in self.known["endpointslices"].values()
            if one["metadata"]["namespace"] == namespace
            and (one["metadata"].get("labels") or {}).get(label) == service
            for endpoint in one.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("ready", True)
            for address in endpoint["addresses"]
        ]


def reply(query: bytes, names: Names) -> bytes:
    """RFC 1035: one question, and A records where it asks for them."""
    end, labels = 12, []
    while query[end]:
        labels.append(query[end + 1 : end + 1 + query[end]].decode("latin-1"))
        end += query[end] + 1
    (kind,) = struct.unpack(">H", query[end + 1 : end + 3])
    found = names.addresses(".".join(labels).lower())
    records = b""
    count = 0
    for address in found or () if kind == 1 else ():
        data = bytes(int(part) for part in address.split("."))
        records += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, SECONDS, 4) + data
        count += 1
    flags = 0x8580 | (3 if found is None else 0)
    return query[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0) + query[12 : end + 5] + records


class Server(asyncio.DatagramProtocol):
    def __init__(self, names: Names) -> None:
        self._names = names
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        assert self._transport is not None
        try:
            self._transport.sendto(reply(data, self._names), addr)
        except (IndexError, struct.error, ValueError) as error:
            print(f"not understood: {error}", flush=True)


async def serve(kubeconfig: Path, address: str) -> None:
    names, client = Names(), Client(HttpTransport(load(kubeconfig)))
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: Server(names), local_addr=(address, 53))
    async with asyncio.TaskGroup() as group:
        for resource in (SERVICES, ENDPOINT_SLICES):
            group.create_task(names.follow(client, resource))


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
