"""Events go after an hour of silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from manta.api.resources import CORE_EVENTS
from manta.localplane.apiserver.expiry import remove_expired
from support.plane import memory_plane

START = datetime(2026, 11, 15, 8, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def now(self):
        return self.time

    def monotonic(self) -> float:
        return 0.0


def event(name, **more):
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "R", **more}


async def test_only_what_was_not_reported_again_goes() -> None:
    clock = Clock()
    async with memory_plane(clock=clock) as plane:
        client, core = plane.client, plane.app.core
        await client.create(CORE_EVENTS, "default", event("once"))
        again = event("again", lastTimestamp="2026-11-15T08:30:00Z")
        await client.create(CORE_EVENTS, "default", again)
        clock.time = START + timedelta(minutes=59)
        assert remove_expired(core) == 0
        clock.time = START + timedelta(minutes=61)
        assert remove_expired(core) == 1
        left = (await client.list(CORE_EVENTS, "default")).items
        assert [one["metadata"]["name"] for one in left] == ["again"]
