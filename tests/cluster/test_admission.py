"""The webhook's certificates among several replicas, and its server over real TLS."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from manta.admission.certificate_manager import CHECK_INTERVAL, CertificateManager
from manta.admission.certificates import AUTHORITY_LIFETIME, LEAF_LIFETIME
from manta.admission.review import review
from manta.admission.server import LIMITS, ReviewServer
from manta.api.meta import Key
from manta.api.resources import SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS
from manta.cli import webhook
from manta.httpserver.address import Address
from manta.install.operator_manifests import Installation
from manta.install.webhook_manifests import webhook_objects
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.errors import NotFound, Unreachable
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.inprocess import InProcessTransport
from manta.operator.options import options_from
from manta.rules.settings import Settings
from support.certmanager import cert_manager_crds
from support.fake_ray import FakeRay
from support.operator_fixture import until
from support.permissions import RecordingTransport
from support.plane import MemoryPlane, memory_plane
from support.raycluster import group, ray_cluster
from support.virtual import running, virtual_plane, virtually

Json = dict[str, Any]
SECRET = Key("default", "certificates")
CONFIGURATION = Key("", "hook")
NAMES = ("hook.default.svc", "localhost", "127.0.0.1")


def _kind() -> Json:
    """The embedded server asks no webhooks and has no such kind: one without rules will do."""
    resource = VALIDATING_WEBHOOK_CONFIGURATIONS
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": resource.group_resource,
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": {"plural": resource.plural, "singular": "hook", "kind": resource.kind},
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }


async def configure(plane: MemoryPlane) -> None:
    hooks = [{"name": one, "clientConfig": {"url": "https://x"}} for one in ("a.b.c", "d.e.f")]
    resource = VALIDATING_WEBHOOK_CONFIGURATIONS
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": CONFIGURATION.name},
        "webhooks": hooks,
    }
    await plane.client.create(VALIDATING_WEBHOOK_CONFIGURATIONS, "", body)


def a_keeper(
    plane: MemoryPlane, directory: Path, client: Client | None = None
) -> CertificateManager:
    directory.mkdir(parents=True, exist_ok=True)
    return CertificateManager(
        client or plane.client,
        plane.clock,
        secret=SECRET,
        configuration=CONFIGURATION.name,
        names=NAMES,
        directory=directory,
    )


async def trusted(plane: MemoryPlane) -> str:
    """What both webhooks of the configuration trust, in PEM."""
    found = await plane.client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, CONFIGURATION)
    bundles = {one["clientConfig"].get("caBundle", "") for one in found["webhooks"]}
    assert len(bundles) == 1
    return base64.b64decode(bundles.pop()).decode()


async def kept(plane: MemoryPlane) -> Json:
    data: Json = (await plane.client.get(SECRETS, SECRET))["data"]
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def test_replicas_that_start_together_agree(tmp_path: Path) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane([_kind()]) as plane:
            await configure(plane)
            keepers = [a_keeper(plane, tmp_path / str(number)) for number in range(3)]
            async with running(*(one.run() for one in keepers)):
                for one in keepers:
                    await asyncio.wait_for(one.ready.wait(), 60)
                await asyncio.sleep(60)
            secret = await kept(plane)
            assert await trusted(plane) == secret["ca.crt"]
            for number in range(3):
                assert (tmp_path / str(number) / "tls.crt").read_text() == secret["tls.crt"]

    story()


def test_certificates_are_renewed_and_always_trusted(tmp_path: Path) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane([_kind()]) as plane:
            await configure(plane)
            keepers = [a_keeper(plane, tmp_path / str(number)) for number in range(2)]
            for one in keepers:
                await one.renew()
            first = await kept(plane)
            await asyncio.sleep((LEAF_LIFETIME * 0.7).total_seconds())
            for one in keepers:
                await one.renew()
            second = await kept(plane)
            assert second["tls.crt"] != first["tls.crt"]
            assert second["ca.crt"] == first["ca.crt"]
            await asyncio.sleep(
                (AUTHORITY_LIFETIME - LEAF_LIFETIME - timedelta(days=30)).total_seconds()
            )
            for one in keepers:
                await one.renew()
            third = await kept(plane)
            assert third["ca.crt"].count("BEGIN CERTIFICATE") == 2
            assert third["ca.crt"].endswith(first["ca.crt"])
            assert await trusted(plane) == third["ca.crt"]
            for number in range(2):
                assert (tmp_path / str(number) / "tls.crt").read_text() == third["tls.crt"]

    story()


async def settled(keeper: CertificateManager) -> None:
    """Although the first reply to every kind of write is lost."""
    for _ in range(5):
        with contextlib.suppress(Unreachable):
            await keeper.renew()


def test_every_permission_of_the_webhook_is_used_and_every_use_is_permitted(tmp_path: Path) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane([_kind()]) as plane:
            await configure(plane)
            recorded = RecordingTransport(InProcessTransport(plane.app, ADMIN), FakeRay())
            keeper = a_keeper(plane, tmp_path, Client(recorded))
            for life in (0.0, 0.7):
                await asyncio.sleep((LEAF_LIFETIME * life).total_seconds())
                await settled(keeper)
            assert recorded.used == granted

    granted = {
        (api, resource, verb)
        for one in webhook_objects(Installation())
        for rule in one.get("rules", ())
        for api in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    story()


@pytest.mark.parametrize("rubbish", ["", "cnViYmlzaA=="])
def test_a_secret_that_is_of_no_use_is_made_again(tmp_path: Path, rubbish: str) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane([_kind()]) as plane:
            await configure(plane)
            names = ("ca.crt", "ca.key", "tls.crt", "tls.key")
            body = {"metadata": {"name": SECRET.name}, "data": dict.fromkeys(names, rubbish)}
            await plane.client.create(SECRETS, SECRET.namespace, body)
            keeper = a_keeper(plane, tmp_path)
            async with running(keeper.run()):
                await asyncio.wait_for(keeper.ready.wait(), 60)
                await asyncio.sleep(1)
                assert "BEGIN CERTIFICATE" in await trusted(plane)

    story()


def test_a_configuration_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane([_kind()]) as plane:
            keeper = a_keeper(plane, tmp_path)
            async with running(keeper.run()):
                await asyncio.sleep(30)
                assert not keeper.ready.is_set()
                await configure(plane)
                await asyncio.wait_for(keeper.ready.wait(), 30)
                await plane.client.delete(SECRETS, SECRET)
                await asyncio.sleep(CHECK_INTERVAL.total_seconds() + 1)
                assert await trusted(plane) == (await kept(plane))["ca.crt"]

    story()


# ── the server ───────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """Its port, and TLS as an API server would set it up."""
    async with memory_plane(crds=[_kind()]) as plane:
        await configure(plane)
        keeper = a_keeper(plane, tmp_path)
        await keeper.renew()
        judge = ReviewServer(
            Address("127.0.0.1", 0), keeper.context, lambda body: review(body, Settings())
        )
        context = ssl.create_default_context(cadata=await trusted(plane))
        async with running(judge.run()):
            await judge.listening.wait()
            yield judge.port, context


async def ask(reader: Any, writer: Any, request: bytes) -> tuple[int, bytes]:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return int(head.split(b" ")[1]), await reader.readexactly(length)


def post(body: bytes) -> bytes:
    head = f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def a_review(document: Json) -> bytes:
    request = {
        "uid": "1",
        "kind": {"kind": document["kind"]},
        "operation": "CREATE",
        "object": document,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


async def test_reviews_are_answered_one_after_the_other_on_one_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as (port, context):
        streams = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="hook.default.svc"
        )
        for valid in (True, False, True):
            groups = [group("a")] if valid else [group("a"), group("a")]
            body = a_review(ray_cluster(groups=groups))
            status, answer = await ask(*streams, post(body))
            assert status == 200
            assert json.loads(answer)["response"]["allowed"] is valid
        assert (await ask(*streams, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200
        assert (await ask(*streams, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 404
        assert (await ask(*streams, post(b"{}")))[0] == 400
        assert (await ask(*streams, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200
        streams[1].close()


LARGE = LIMITS.body_bytes + 1


@pytest.mark.parametrize(
    ("header", "body", "status"),
    [
        (f"Content-Length: {LARGE}", b"", 413),
        ("Content-Length: many", b"", 400),
        ("Transfer-Encoding: chunked", b"%x\r\n%b\r\n" % (LARGE, b"x" * LARGE), 413),
        ("Transfer-Encoding: chunked", b"many\r\n", 400),
    ],
    ids=["length", "no number", "chunks", "no chunks"],
)
async def test_a_body_without_measure_is_refused(
    tmp_path: Path, header: str, body: bytes, status: int
) -> None:
    async with served(tmp_path) as (port, context):
        streams = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
        )
        request = f"POST / HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode() + body
        assert (await ask(*streams, request))[0] == status
        streams[1].close()


async def test_nobody_else_has_the_certificate(tmp_path: Path) -> None:
    async with served(tmp_path) as (port, _):
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())


def test_the_configuration_is_needed(tmp_path: Path) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane([_kind()]) as plane:
            keeper = a_keeper(plane, tmp_path)
            with pytest.raises(NotFound):
                await keeper.renew()

    story()


# ── the command ──────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def commanded(
    plane: MemoryPlane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[int]:
    """The port of `manta webhook`, all of it, but with the way to the API server cut short."""
    monkeypatch.setattr(
        "manta.kube.transport.HttpTransport",
        lambda *_, **__: InProcessTransport(plane.app, ADMIN),
    )
    parser = argparse.ArgumentParser()
    webhook.add_parser(parser.add_subparsers())
    flags = ("--listen=127.0.0.1:0", "--configuration=hook", "--feature-gates=RayClusterMTLS=true")
    args = parser.parse_args(["webhook", "--host=localhost", *flags])

    async def port() -> int:
        found = re.search(r"reviewing on port (\d+)", caplog.text)
        return int(found[1]) if found else 0

    with caplog.at_level(logging.INFO):
        serving = webhook._serve(args, options_from(args, {}), Cluster("https://server:6443"))
        async with running(serving):
            yield await until(port)


@pytest.mark.parametrize("installed", [True, False])
async def test_mutual_tls_is_refused_only_where_cert_manager_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, installed: bool
) -> None:
    crds = [_kind(), *(cert_manager_crds() if installed else ())]
    async with memory_plane(crds=crds) as plane:
        await configure(plane)
        async with commanded(plane, monkeypatch, caplog) as port:
            context = ssl.create_default_context(cadata=await trusted(plane))
            streams = await asyncio.open_connection("localhost", port, ssl=context)
            body = a_review(ray_cluster(tlsOptions={"enabled": True}))
            response = json.loads((await ask(*streams, post(body)))[1])["response"]
            streams[1].close()
    assert response["allowed"] is installed, response
    assert installed or "needs cert-manager" in response["status"]["message"]
