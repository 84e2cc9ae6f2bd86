"""Ingresses and Gateways before real Pods."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import (
    ENDPOINT_SLICES,
    GATEWAYS,
    HTTP_ROUTES,
    INGRESSES,
    SERVICES,
    Resource,
)
from support.nodeplane import NodePlane, a_container, node_plane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]

SERVE = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length'] or 0))
        self.reply(body)
    def do_GET(self):
        self.reply(b'')
    def reply(self, body):
        text = f'{sys.argv[1]} {self.path} '.encode() + body
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(('', 8000), Handler).serve_forever()
"""


async def backend(node: NodePlane, name: str) -> None:
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    await node.create(name, a_container("python3", "-c", SERVE, name, readinessProbe=probe))
    pod = await node.until_ready(name)
    port = {"name": "http", "port": 8000}
    service = {"metadata": {"name": name}, "spec": {"clusterIP": "None", "ports": [port]}}
    await node.client.create(SERVICES, "default", service)
    endpoints = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [pod["status"]["podIP"]], "conditions": {"ready": True}}],
        "ports": [port],
    }
    await node.client.create(ENDPOINT_SLICES, "default", endpoints)


async def fetch(node: NodePlane, path: str, host: str, body: bytes = b"") -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.agent.gateway.port)
    method = "POST" if body else "GET"
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    head_bytes, _, content = answer.partition(b"\r\n\r\n")
    return int(head_bytes.split(b" ")[1]), content.decode()


async def until_routed(node: NodePlane, path: str, host: str) -> str:
    for _ in range(300):
        if node.agent.gateway.port:
            status, text = await fetch(node, path, host)
            if status == 200:
                return text
        await asyncio.sleep(0.02)
    raise AssertionError(f"no route for {host}{path}")


async def test_an_ingress_leads_to_its_service_by_host_and_path(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await backend(node, "dash")
        goal = {"service": {"name": "dash", "port": {"number": 8000}}}
        path = {"path": "/ray", "pathType": "Prefix", "backend": goal}
        rule = {"host": "ray.localhost", "http": {"paths": [path]}}
        ingress = {"metadata": {"name": "i"}, "spec": {"rules": [rule]}}
        await node.client.create(INGRESSES, "default", ingress)
        assert await until_routed(node, "/ray/api?x=1", "ray.localhost") == "dash /ray/api?x=1 "
        big = b"x" * 300_000
        status, text = await fetch(node, "/ray/api", "ray.localhost", big)
        assert (status, text) == (200, f"dash /ray/api {big.decode()}")
        assert (await fetch(node, "/ray", "other.localhost"))[0] == 404


def route(**weights: int) -> dict[str, Any]:
    backends = [{"name": name, "port": 8000, "weight": weight} for name, weight in weights.items()]
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": backends}
    return {"parentRefs": [{"name": "gw"}], "rules": [rule]}


async def test_a_route_shares_requests_out_by_weight(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await backend(node, "old")
        await backend(node, "new")
        listener = {"name": "http", "protocol": "HTTP", "port": 80}
        spec = {"gatewayClassName": "manta", "listeners": [listener]}
        while not node.agent.gateway.port:
            await asyncio.sleep(0.02)
        await node.client.create(GATEWAYS, "default", manifest(GATEWAYS, "gw", spec))
        weighted = manifest(HTTP_ROUTES, "r", route(old=75, new=25))
        await node.client.create(HTTP_ROUTES, "default", weighted)
        await until_routed(node, "/", "gw.default.gateway.localhost")
        answers = [await fetch(node, "/", "gw.default.gateway.localhost") for _ in range(40)]
        assert Counter(text.split()[0] for _, text in answers) == {"old": 30, "new": 10}

        gateway = await until_accepted(node)
        address = gateway["status"]["addresses"][0]["value"]
        command = (
            f"import urllib.request; print(urllib.request.urlopen('http://{address}/in').read())"
        )
        assert "/in" in await node.execute("python3", "-c", command, name="old")


def manifest(resource: Resource, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": {"name": name}, "spec": spec}


async def until_accepted(node: NodePlane) -> dict[str, Any]:
    for _ in range(300):
        gateway = await node.client.get(GATEWAYS, Key("default", "gw"))
        found = await node.client.get(HTTP_ROUTES, Key("default", "r"))
        if "status" in gateway and found.get("status", {}).get("parents"):
            conditions = found["status"]["parents"][0]["conditions"]
            assert {one["type"]: one["status"] for one in conditions} == {
                "Accepted": "True",
                "ResolvedRefs": "True",
            }
            return gateway
        await asyncio.sleep(0.02)
    raise AssertionError("the Gateway was never accepted")
