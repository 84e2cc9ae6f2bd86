"""Kubernetes' two storage tests of objects with a life time; only Events have one, of an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manta.localplane.apiserver.expiry import remove_expired
from manta.localplane.inprocess import InProcessTransport
from support.contract import Api
from support.plane import memory_plane

pytestmark = pytest.mark.embedded_only

START = datetime(2026, 11, 15, 8, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return 0.0


def event(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "R"}


async def test_create_with_ttl() -> None:
    clock = Clock()
    async with memory_plane(clock=clock) as plane:
        api = Api(InProcessTransport(plane.app), embedded=True)
        api.namespace = "default"
        await api.made(api.path("events"), event("e"))
        async with api.watch(api.path("events")) as events:
            assert await events.take(1) == [("ADDED", "e")]
            clock.time = START + timedelta(minutes=61)
            assert remove_expired(plane.app.core) == 1
            assert await events.take(1) == [("DELETED", "e")]
        assert (await api.get(api.path("events", "e"))).status == 404


async def test_guaranteed_update_with_ttl() -> None:
    clock = Clock()
    async with memory_plane(clock=clock) as plane:
        api = Api(InProcessTransport(plane.app), embedded=True)
        api.namespace = "default"
        await api.made(api.path("events"), event("e"))
        told_again = {"count": 2, "lastTimestamp": "2026-11-15T08:50:00Z"}
        await api.patch(api.path("events", "e"), told_again)
        clock.time = START + timedelta(minutes=61)
        assert remove_expired(plane.app.core) == 0
        clock.time = START + timedelta(minutes=111)
        assert remove_expired(plane.app.core) == 1
