"""The validating webhook beside a real kube-apiserver, which asks it over TLS."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS
from manta.kube.errors import ApiError
from support.contract import EXTERNAL
from support.operator_fixture import OperatorFixture, until
from support.operator_objects import a_cluster

Json = dict[str, Any]
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not os.environ.get(EXTERNAL), reason="the embedded API server asks no webhooks"
    ),
    pytest.mark.skipif(
        bool(os.environ.get("MANTA_EXTERNAL")), reason="another's API server does not reach us"
    ),
]


async def configured(operator_fixture: OperatorFixture, port: int) -> str:
    """The webhook's configuration, without a certificate: for our namespace alone."""
    name = f"{operator_fixture.namespace}-webhook"
    rule = {
        "apiGroups": ["ray.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["rayclusters", "rayjobs", "rayservices", "raycronjobs"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": operator_fixture.namespace}}
    hook = {
        "name": "validate.manta.io",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/validate"},
        "rules": [rule],
        "namespaceSelector": here,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    body = {"metadata": {"name": name}, "webhooks": [hook]}
    await operator_fixture.client.create(VALIDATING_WEBHOOK_CONFIGURATIONS, "", body)
    return name


@asynccontextmanager
async def webhook(
    operator_fixture: OperatorFixture, kubeconfig: str, name: str, port: int
) -> AsyncIterator[Path]:
    log = operator_fixture.directory / f"webhook-{port}.log"
    command = [
        *(str(Path(sys.executable).with_name("manta")), "webhook", "--kubeconfig", kubeconfig),
        *("--listen", f"127.0.0.1:{port}", "--host", "127.0.0.1"),
        *("--namespace", operator_fixture.namespace, "--configuration", name),
    ]
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(*command, stdout=file, stderr=file)
    try:

        async def listens() -> bool:
            assert process.returncode is None, log.read_text()[-2000:]
            return "reviewing on port" in log.read_text()

        await until(listens)
        yield log
    finally:
        process.terminate()
        await process.wait()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def refused(operator_fixture: OperatorFixture, document: Json) -> str:
    with pytest.raises(ApiError) as caught:
        await operator_fixture.make(RAY_CLUSTERS, document)
    return str(caught.value)


async def test_invalid_objects_are_refused_at_the_door_in_the_controllers_words(
    operated: OperatorFixture, name: str
) -> None:
    kubeconfig, port = os.environ[EXTERNAL], free_port()
    # What the schema of the CRD allows, and the rules do not.
    invalid = a_cluster(operated, name, authOptions={"mode": "token"}, rayVersion="2.40.0")
    configuration = await configured(operated, port)
    key = Key("", configuration)
    try:
        async with webhook(operated, kubeconfig, configuration, port):

            async def works() -> bool:
                return "denied the request" in await refused(operated, invalid)

            await until(works, lambda: refused(operated, invalid))
            assert "2.52.0" in await refused(operated, invalid)
            await operated.make(RAY_CLUSTERS, a_cluster(operated, name))
            found = await operated.until(
                RAY_CLUSTERS, name, lambda one: one.get("state") == "ready"
            )
            assert found["metadata"]["name"] == name
            await _two_replicas_agree(operated, kubeconfig, configuration)
        # With nobody there and `failurePolicy: Fail`, nothing passes.
        assert "failed calling webhook" in await refused(operated, invalid)
    finally:
        await operated.client.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, key)


async def _two_replicas_agree(
    operator_fixture: OperatorFixture, kubeconfig: str, configuration: str
) -> None:
    """A second one serves what the first has made."""

    async def state() -> tuple[Any, Any]:
        secret = await operator_fixture.client.get(
            SECRETS, Key(operator_fixture.namespace, "manta-webhook-certificates")
        )
        found = await operator_fixture.client.get(
            VALIDATING_WEBHOOK_CONFIGURATIONS, Key("", configuration)
        )
        return secret["data"], found["webhooks"][0]["clientConfig"]["caBundle"]

    before = await state()
    assert before[1] == before[0]["ca.crt"]
    assert b"BEGIN CERTIFICATE" in base64.b64decode(before[1])
    async with webhook(operator_fixture, kubeconfig, configuration, free_port()):
        assert await state() == before
