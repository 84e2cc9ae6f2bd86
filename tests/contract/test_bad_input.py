"""Bad input: the right Status, nothing stored, nobody else disturbed.

What can be asked of any server is asked of both; how sockets are treated, of ours.
"""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.localplane.plane import Plane, PlaneOptions
from support.cluster_api import running_plane
from support.contract import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, Widgets, config_map, pod
from support.protobuf import bytes_field, envelope, text_field

PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMED = bytes_field(1, text_field(1, "bad"))

BODIES: dict[str, tuple[bytes, str]] = {
    "truncated JSON": (b'{"metadata": {"name": "bad"', "application/json"),
    "JSON with a tail": (b'{"metadata": {"name": "bad"}} x', "application/json"),
    "not UTF-8": (b'{"metadata": {"name": "b\xff\xfe"}}', "application/json"),
    "a number": (b"7", "application/json"),
    "nested too deep": (b'{"data":' * 20000, "application/json"),
    "nothing": (b"", "application/json"),
    "broken YAML": (b"metadata: {name: bad\n  x: [", "application/yaml"),
    "a YAML list": (b"- a\n- b\n", "application/yaml"),
    "YAML with tabs": (b"metadata:\n\tname: bad\n", "application/yaml"),
    "protobuf without magic": (b"\x0a\x04abcd", PROTOBUF),
    "truncated protobuf": (envelope("v1", "ConfigMap", NAMED)[:-3], PROTOBUF),
    "protobuf of another kind": (envelope("v1", "Pod", NAMED), PROTOBUF),
    "protobuf of no kind": (envelope("v9", "Nonsense", NAMED), PROTOBUF),
    "protobuf noise": (envelope("v1", "ConfigMap", b"\xff" * 20), PROTOBUF),
    "wrong types": (b'{"metadata": {"name": "bad"}, "data": [1]}', "application/json"),
    "a wrong kind": (b'{"kind": "Secret", "apiVersion": "v1"}', "application/json"),
}


@pytest.mark.parametrize("name", list(BODIES))
async def test_a_malformed_body_is_refused_and_nothing_is_stored(api: Api, name: str) -> None:
    body, kind = BODIES[name]
    before = await names(api)
    answer = await api.create(api.path("configmaps"), body, content_type=kind)
    assert answer.status in (400, 422), (name, answer.status, answer.text[:300])
    assert answer.body["kind"] == "Status"
    assert answer.body["status"] == "Failure"
    assert answer.reason in {"BadRequest", "Invalid"}
    assert await names(api) == before


async def names(api: Api) -> list[str]:
    items = (await api.get(api.path("configmaps"))).body["items"]
    return [one["metadata"]["name"] for one in items]


PATCHES: dict[str, tuple[bytes, str, tuple[int, ...]]] = {
    "truncated": (b'{"data":', MERGE, (400,)),
    "a list for a merge": (b"[]", MERGE, (400, 422)),
    "a text for operations": (b'"x"', JSON_PATCH, (400,)),
    "operations that do not exist": (b'[{"op":"x","path":"/data/k"}]', JSON_PATCH, (422,)),
    "paths that do not exist": (b'[{"op":"remove","path":"/x/y"}]', JSON_PATCH, (422,)),
    "wrong types": (b'{"data":{"k":{"a":1}}}', STRATEGIC, (422, 400)),
    "broken YAML": (b"a: [", APPLY, (400,)),
    "no operation": (b"null", MERGE, (400, 422, 200)),
    "a stale version": (b'{"metadata":{"resourceVersion":"1"}}', MERGE, (409,)),
}


@pytest.mark.parametrize("name", list(PATCHES))
async def test_a_bad_patch_changes_nothing(api: Api, name: str) -> None:
    body, kind, codes = PATCHES[name]
    made = await api.made(api.path("configmaps"), config_map("a"))
    where = api.path("configmaps", "a")
    answer = await api.patch(where, body, kind, query={"fieldManager": "m"})
    assert answer.status in codes, (name, answer.status, answer.text[:300])
    assert (await api.get(where)).body == made


async def test_wrong_types_name_their_field_everywhere(api: Api, widgets: Widgets) -> None:
    for path, body, field in (
        (api.path("pods"), pod("p", nodeSelector={"a": 1}), "nodeSelector"),
        (api.path("services"), {"metadata": {"name": "s"}, "spec": {"ports": 1}}, "spec.ports"),
        (api.path("secrets"), {"metadata": {"name": "s"}, "type": 7}, "type"),
    ):
        answer = await api.create(path, body)
        assert answer.status == 400
        assert field in answer.message
    body = {
        "apiVersion": "t.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"mode": 1, "replicas": "x"},
    }
    answer = await api.create(widgets.path(), body)
    assert answer.status == 422
    fields = [field for field, _ in answer.causes]
    assert {"spec.mode", "spec.replicas"} <= set(fields)
    assert (await api.get(widgets.path())).body["items"] == []


async def test_odd_paths_and_options_are_refused(api: Api) -> None:
    for path, query, codes in (
        (f"/api/v1/namespaces/{api.namespace}/configmaps/a/b/c", {}, (404,)),
        ("/api/v1/namespaces/%20/configmaps", {}, (200, 404)),
        ("/apis/apps/v1/namespaces", {}, (404,)),
        (api.path("configmaps"), {"labelSelector": "a in ("}, (400,)),
        (api.path("configmaps"), {"fieldSelector": "spec.x=1"}, (400,)),
        (api.path("configmaps"), {"limit": "many"}, (400,)),
        (api.path("configmaps"), {"continue": "nonsense"}, (400,)),
        (api.path("configmaps"), {"resourceVersion": "-1"}, (400,)),
        (api.path("configmaps"), {"watch": "1", "resourceVersion": "x"}, (400, 500)),
        (api.path("configmaps"), {"timeoutSeconds": "x", "watch": "1"}, (400,)),
    ):
        answer = await api.get(path, query=query)
        assert answer.status in codes, (path, query, answer.status)


# ── sockets ──────────────────────────────────────────────────────────────────────────────
PATH = "/api/v1/namespaces/default/configmaps"


class Peer:
    """A client that can be as rude as it likes."""

    def __init__(self, port: int, token: str, authority: str) -> None:
        self._port = port
        self._token = token
        self._context = ssl.create_default_context(cadata=authority)
        self._context.check_hostname = False

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)

    def request(self, method: str, path: str, body: bytes = b"", *more: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *more]
        lines.append(f"Authorization: Bearer {self._token}")
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[tuple[Plane, Peer]]:
    options = PlaneOptions(tmp_path / "plane", memory=True, controllers=False)
    async with Plane(options) as plane:
        token = (options.dir / "pki" / "admin.token").read_text()
        yield plane, Peer(plane.port, token, plane.authority.certificate)


async def status_line(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(30):
        return int((await reader.readline()).split()[1])


@pytest.mark.embedded_only
async def test_a_reader_that_never_reads_keeps_nobody_waiting(peer: tuple[Plane, Peer]) -> None:
    plane, client = peer
    data = json.dumps({"metadata": {"name": "big"}, "data": {"k": "x" * 900_000}}).encode()
    reader, writer = await client.connect()
    writer.write(client.request("POST", PATH, data))
    assert await status_line(reader) == 201
    deaf_reader, deaf_writer = await client.connect()
    for _ in range(12):  # eleven megabytes that nobody fetches
        deaf_writer.write(client.request("GET", PATH))
    await deaf_writer.drain()
    for _ in range(3):
        other_reader, other_writer = await client.connect()
        other_writer.write(client.request("GET", f"{PATH}/nothing", b"", "Connection: close"))
        assert await status_line(other_reader) == 404
        other_writer.close()
    for one in (writer, deaf_writer):
        one.close()
    del deaf_reader
    assert plane.app.store.failure is None


@pytest.mark.embedded_only
async def test_a_body_that_stops_in_the_middle_stores_nothing(peer: tuple[Plane, Peer]) -> None:
    plane, client = peer
    body = json.dumps({"metadata": {"name": "half"}, "data": {"k": "v" * 1000}}).encode()
    _, writer = await client.connect()
    writer.write(client.request("POST", PATH, body)[:-500])
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert plane.app.store.get("configmaps", "default/half") is None
    reader, writer = await client.connect()
    writer.write(client.request("GET", f"{PATH}/half"))
    assert await status_line(reader) == 404
    writer.close()


@contextmanager
def many_files() -> Iterator[None]:
    """A thousand connections need as many file descriptors, here and in the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident(pid: int) -> int:
    """MiB of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise AssertionError("no such process")


def server_of(directory: Path) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(directory).encode() in command and b"apiserver" in command:
                return int(entry.name)
    raise AssertionError("the server is not there")


@pytest.mark.embedded_only
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.timeout(300)
async def test_a_thousand_idle_watches_cost_no_growing_memory(tmp_path: Path) -> None:
    with many_files(), running_plane(tmp_path) as kubeconfig:
        reported: Any = yaml.safe_load(kubeconfig.read_text())
        server = reported["clusters"][0]["cluster"]["server"]
        token = (kubeconfig.parent / "pki" / "admin.token").read_text()
        authority = (kubeconfig.parent / "pki" / "ca.crt").read_text()
        client = Peer(int(server.rpartition(":")[2]), token, authority)
        watch = client.request("GET", f"{PATH}?watch=1&resourceVersion=0&timeoutSeconds=250")

        async def watching() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await client.connect()
            writer.write(watch)
            assert await status_line(reader) == 200
            return reader, writer

        lines: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        while len(lines) < 1000:
            lines += await asyncio.gather(*(watching() for _ in range(50)))
        pid = server_of(tmp_path)
        reader, writer = await client.connect()

        async def write(start: int, count: int) -> None:
            """In another namespace: the watches stay idle."""
            for number in range(start, start + count):
                body = json.dumps({"metadata": {"name": f"c{number}"}}).encode()
                elsewhere = PATH.replace("default", "kube-public")
                writer.write(client.request("POST", elsewhere, body))
                assert await status_line(reader) == 201
                await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"}\n")
                writer.write(client.request("DELETE", f"{elsewhere}/c{number}"))
                assert await status_line(reader) == 200
                await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"}\n")

        await write(0, 50)  # pools, caches and buffers have their size now
        before = resident(pid)
        await write(50, 200)
        grown = resident(pid) - before
        assert grown <= 8, f"{grown} MiB more after 400 writes"
        assert before < 400, f"{before} MiB with 1,000 watches"
        for _, one in lines:
            one.close()
        writer.close()
