"""Warnings of the API server reach the person (P11)."""

from __future__ import annotations

import pytest

from manta.cli.server.warnings import WarningPrinter, warnings_of
from manta.kube.client import Client
from manta.kube.transport import Request, Response


class Warns:
    async def send(self, _: Request) -> Response:
        header = '299 - "unknown field \\"spec.x\\"", 299 - "deprecated, soon gone"'
        return Response(200, {"warning": header}, b"{}")

    async def close(self) -> None:
        """Nothing is open."""


async def test_each_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    client = Client(WarningPrinter(Warns()))  # type: ignore[arg-type]
    for _ in range(2):
        await client.send("GET", "/version")
    assert capsys.readouterr().err.splitlines() == [
        'Warning: unknown field "spec.x"',
        "Warning: deprecated, soon gone",
    ]


def test_only_what_is_meant_for_people_is_shown() -> None:
    assert warnings_of('110 - "stale"') == []
    assert warnings_of("") == []
