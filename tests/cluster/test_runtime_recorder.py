"""Events on the embedded server: aggregated, limited, never in the way."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

from manta.api.resources import CORE_EVENTS, EVENTS
from manta.kube.client import Client
from manta.runtime.recorder import Limits, ObjectReference, Recorder
from support.faults import touches
from support.plane import MemoryPlane
from support.virtual import faulty, running, virtual_plane, virtually

REGARDING = ObjectReference("ray.io/v1", "RayCluster", "default", "demo", "uid-1")


def tell(recorder: Recorder, note: str = "Created head Pod demo-head", **more: Any) -> None:
    recorder.event(
        REGARDING, "Normal", "CreatedHeadPod", "Create", note, controller="raycluster", **more
    )


async def events(plane: MemoryPlane) -> list[dict[str, Any]]:
    return (await plane.client.list(EVENTS, "default")).items


@virtually
async def test_an_event_has_all_that_the_new_api_asks_for() -> None:
    async with virtual_plane() as plane:
        recorder = Recorder(plane.client, plane.clock, Random(1), instance="pod-1")
        async with running(recorder.run()):
            tell(recorder)
            await asyncio.sleep(1)
        (event,) = await events(plane)
        assert event["reason"] == "CreatedHeadPod"
        assert event["action"] == "Create"
        assert event["note"] == "Created head Pod demo-head"
        assert event["reportingController"] == "raycluster"
        assert event["reportingInstance"] == "pod-1"
        assert event["regarding"]["name"] == "demo"
        assert event["type"] == "Normal"
        assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"


@virtually
async def test_an_event_is_sent_with_its_version_and_kind() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        recorder = Recorder(Client(faults), plane.clock, Random(1))
        async with running(recorder.run()):
            tell(recorder)
            await recorder.flush()
        [write] = faults.accepted_writes("/events")
        sent = json.loads(write.body or b"{}")
        assert (sent["apiVersion"], sent["kind"]) == ("v1", "Event")


@virtually
async def test_an_event_has_the_times_by_which_kubectl_sorts_and_a_count() -> None:
    """U13."""
    async with virtual_plane() as plane:
        recorder = Recorder(plane.client, plane.clock, Random(1), instance="pod-1")
        async with running(recorder.run()):
            tell(recorder)
            await asyncio.sleep(5)
            (first,) = (await plane.client.list(CORE_EVENTS, "default")).items
            tell(recorder)
            await asyncio.sleep(60)
        (event,) = (await plane.client.list(CORE_EVENTS, "default")).items
        assert first["firstTimestamp"] == first["lastTimestamp"] == "2026-01-01T00:00:00Z"
        assert event["firstTimestamp"] == first["firstTimestamp"]
        assert event["lastTimestamp"] == "2026-01-01T00:00:05Z"
        assert (event["count"], event["series"]["count"]) == (2, 2)
        assert event["source"]["component"] == "raycluster"


@virtually
async def test_a_warning_that_differs_with_every_try_is_reported_five_times_in_five_minutes() -> (
    None
):
    """R25: the name of what is refused differs each time."""
    async with virtual_plane() as plane:
        recorder = Recorder(plane.client, plane.clock, Random(1))
        async with running(recorder.run()):
            for number in range(300):
                note = f"Failed to create Job demo-redis-cleanup-{number}: quota"
                recorder.event(
                    REGARDING, "Warning", "FailedToCreateRedisCleanupJob", "Create", note
                )
                await asyncio.sleep(1)
            await asyncio.sleep(300)
        found = await events(plane)
        assert 1 <= len(found) <= 5
        assert sum(one.get("series", {}).get("count", 1) for one in found) == 300


@virtually
async def test_a_repeated_event_becomes_a_series_that_is_reported_ever_more_rarely() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        recorder = Recorder(Client(faults), plane.clock, Random(1))
        async with running(recorder.run()):
            for _ in range(3600):  # an hour of polling an unhealthy application (C33)
                tell(recorder)
                await asyncio.sleep(1)
        (event,) = await events(plane)
        assert event["series"]["count"] > 2000
        assert len(faults.accepted_writes()) <= 12


@virtually
async def test_many_notes_of_one_cause_are_a_few_events_and_a_count() -> None:
    async with virtual_plane() as plane:
        recorder = Recorder(plane.client, plane.clock, Random(1))
        async with running(recorder.run()):
            for number in range(1000):
                tell(recorder, f"Created worker Pod w-{number}")
            await asyncio.sleep(60)
        found = await events(plane)
        assert len(found) == Limits().notes_burst
        assert sum(one.get("series", {}).get("count", 1) for one in found) == 1000


@virtually
async def test_the_queue_is_bounded_while_the_server_is_gone() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.go_down()
        recorder = Recorder(Client(faults), plane.clock, Random(1), limits=Limits(queue=50))
        async with running(recorder.run()):
            for number in range(500):
                regarding = REGARDING._replace(name=f"c{number}", uid=f"uid-{number}")
                recorder.event(regarding, "Normal", "Reason", "Create", "note")
            assert recorder.dropped == 450
            await asyncio.sleep(3600)
            assert recorder.dropped == 500
            faults.come_back()
            tell(recorder)
            await asyncio.sleep(60)
        assert len(await events(plane)) == 1


@virtually
async def test_what_the_server_refuses_is_dropped_at_once() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.deny(touches(CORE_EVENTS), times=1)
        recorder = Recorder(Client(faults), plane.clock, Random(1))
        async with running(recorder.run()):
            tell(recorder)
            tell(recorder, "another")
            await asyncio.sleep(5)
        assert recorder.dropped == 1
        assert [one["note"] for one in await events(plane)] == ["another"]


@virtually
async def test_an_event_whose_reply_was_lost_is_written_once_and_counted_on() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.fail_after(touches(CORE_EVENTS, "POST"))
        recorder = Recorder(Client(faults), plane.clock, Random(1))
        async with running(recorder.run()):
            tell(recorder)
            await asyncio.sleep(5)
            assert (recorder.written, recorder.dropped) == (1, 0)
            tell(recorder)
            await asyncio.sleep(60)
        (event,) = await events(plane)
        assert event["series"]["count"] == 2


@virtually
async def test_what_happens_while_an_event_is_written_is_reported_later() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.slow(touches(CORE_EVENTS, "POST"), 8.0)
        recorder = Recorder(Client(faults), plane.clock, Random(1))
        async with running(recorder.run()):
            tell(recorder)
            await asyncio.sleep(4)
            tell(recorder)
            await asyncio.sleep(60)
        (event,) = await events(plane)
        assert event["series"]["count"] == 2


@virtually
async def test_a_series_whose_event_has_expired_begins_again() -> None:
    async with virtual_plane() as plane:
        recorder = Recorder(plane.client, plane.clock, Random(1))
        async with running(recorder.run()):
            tell(recorder)
            await asyncio.sleep(1)
            (event,) = await events(plane)
            from manta.api.meta import Key

            await plane.client.delete(EVENTS, Key("default", event["metadata"]["name"]))
            tell(recorder)
            await asyncio.sleep(60)
        (again,) = await events(plane)
        assert again["series"]["count"] == 2


@virtually
async def test_flush_gives_what_is_queued_a_last_chance() -> None:
    async with virtual_plane() as plane:
        recorder = Recorder(plane.client, plane.clock, Random(1))
        async with running(recorder.run()):
            tell(recorder)
            await recorder.flush()
            assert len(await events(plane)) == 1


@virtually
async def test_a_note_is_cut_to_what_the_api_accepts() -> None:
    async with virtual_plane() as plane:
        recorder = Recorder(plane.client, plane.clock, Random(1))
        async with running(recorder.run()):
            tell(recorder, "ä" * 5000)
            await asyncio.sleep(1)
        (event,) = await events(plane)
        assert len(event["note"].encode()) <= 1024
