"""Informers against the embedded server, under faults and virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Annotated, Any

import msgspec
import pytest

from manta.api.meta import Key, Object
from manta.api.resources import CONFIG_MAPS, Resource
from manta.api.well_known import ANNOTATION_INITIAL_EVENTS_END
from manta.kube.client import Client
from manta.kube.transport import Request, Response, StreamResponse
from manta.runtime.backoff import Backoff
from manta.runtime.informer import Informer
from manta.runtime.reflector import WatchTiming
from support.faults import FaultTransport, status, touches, watches
from support.plane import MemoryPlane
from support.virtual import faulty, running, until, virtual_plane, virtually


def an_informer(client: Client, **options: Any) -> Informer[Object]:
    options.setdefault("namespace", "default")
    return Informer(client, CONFIG_MAPS, Object, random=Random(1), **options)


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


async def put(plane: MemoryPlane, *names: str) -> None:
    for name in names:
        await plane.client.create(CONFIG_MAPS, "default", config_map(name))


def names(informer: Informer[Object]) -> set[str]:
    return {one.metadata.name for one in informer.all()} - {"kube-root-ca.crt"}


class Reported:
    """Records the calls of handlers."""

    def __init__(self, informer: Informer[Object]) -> None:
        self.changes: list[tuple[str | None, str | None]] = []
        informer.add_handler(self._note)

    def _note(self, old: Object | None, new: Object | None) -> None:
        self.changes.append(
            (old.metadata.name if old else None, new.metadata.name if new else None)
        )


@virtually
async def test_it_holds_what_was_there_and_follows_what_changes() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a", "b")
        informer = an_informer(plane.client)
        async with running(informer.run()):
            await informer.synced.wait()
            assert names(informer) == {"a", "b"}
            await put(plane, "c")
            await plane.client.delete(CONFIG_MAPS, Key("default", "a"))
            await until(lambda: names(informer) == {"b", "c"})


@virtually
async def test_a_server_without_streaming_lists_is_asked_to_page() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        faults, refused = faulty(plane), []

        def refuse(request: Request) -> Response:
            refused.append(request)
            return status(422, "Invalid", "sendInitialEvents is forbidden for watch")

        faults.answer_by(streamed_lists, refuse)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            assert names(informer) == {"a"}
            await put(plane, "b")
            await until(lambda: names(informer) == {"a", "b"})
            faults.expire(watches(CONFIG_MAPS), times=1)
            faults.break_watches()
            await put(plane, "c")
            await until(lambda: names(informer) == {"a", "b", "c"})
            assert (pages_of(faults), len(refused)) == (2, 1)


def streamed_lists(request: Request) -> bool:
    return ("sendInitialEvents", "true") in request.query


def pages_of(faults: FaultTransport) -> int:
    return sum(one.method == "GET" and not one.watch for one in faults.log)


@pytest.mark.parametrize("inside_the_stream", [True, False], ids=["in stream", "as answer"])
@virtually
async def test_a_server_that_breaks_down_on_streaming_lists_is_asked_to_page(
    inside_the_stream: bool,
) -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        faults = faulty(plane)
        broken = status(500, "InternalError", "no watch cache for this resource")
        reported = _error(broken) if inside_the_stream else broken
        faults.answer(streamed_lists, reported, times=None)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            assert names(informer) == {"a"}
            assert informer.watch_error is None
            await put(plane, "b")
            await until(lambda: names(informer) == {"a", "b"})
            assert pages_of(faults) == 1


@virtually
async def test_a_passing_weakness_does_not_end_streaming_lists() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        faults = faulty(plane)
        faults.answer(streamed_lists, _error(status(500, "InternalError")), times=1)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            faults.expire(watches(CONFIG_MAPS), times=1)
            faults.break_watches()
            await put(plane, "b")
            await until(lambda: names(informer) == {"a", "b"})
            assert pages_of(faults) == 1


@virtually
async def test_a_failure_behind_a_streamed_list_costs_no_new_list() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        head = _event("ADDED", "a", 7) + _end_of_list(9)
        weak = status(500, "InternalError")
        faults.answer(streamed_lists, _stream(head + _error(weak).body), times=1)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await until(lambda: informer.watch_error)
            assert names(informer) == {"a"}
            await asyncio.sleep(5)
            assert [one.watch for one in faults.log] == [True, True]


@virtually
async def test_what_is_deleted_while_the_list_is_streamed_is_not_held() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        head = _event("ADDED", "a", 7) + _event("ADDED", "b", 8) + _event("DELETED", "a", 9)
        faults.answer(streamed_lists, _stream(head + _end_of_list(9)), times=1)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            assert names(informer) == {"b"}


@virtually
async def test_a_server_that_forgets_every_list_at_once_is_not_asked_in_a_tight_loop() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        gone = _error(status(410, "Expired", "too old resource version")).body
        faults.answer(streamed_lists, _stream(_end_of_list(9) + gone), times=None)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await asyncio.sleep(600)
            assert 10 < len(faults.log) < 60


@virtually
async def test_a_broken_watch_resumes_without_a_new_list() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        reported = Reported(informer)
        async with running(informer.run()):
            await informer.synced.wait()
            faults.break_watches()
            await put(plane, "b")
            await until(lambda: names(informer) == {"a", "b"})
        opened = [one for one in faults.log if one.watch or one.method == "GET"]
        assert len(opened) == 2
        assert reported.changes.count((None, "a")) == 1


class ClosingTransport:
    """A server that closes every watch at its tenth event, as kube-apiserver does when its buffer of
    a watch is full."""

    def __init__(self, inner: FaultTransport, events: int = 10) -> None:
        self._inner = inner
        self._events = events
        self.watches: list[str] = []

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        query = dict(request.query)
        self.watches.append(query.get("resourceVersion", ""))
        async with self._inner.stream(request) as inner:
            streams_list = "sendInitialEvents" in query
            yield inner if streams_list else _Closing(inner, self._events)

    async def close(self) -> None:
        await self._inner.close()


class _Closing:
    def __init__(self, inner: StreamResponse, events: int) -> None:
        self._inner = inner
        self._left = events
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            for line in chunk.splitlines(keepends=True):
                yield line
                self._left -= 1
                if not self._left:
                    return


@virtually
async def test_a_watch_that_the_server_closes_at_every_tenth_event_loses_nothing_and_never_waits() -> (
    None
):
    """G2."""
    async with virtual_plane() as plane:
        await put(plane, "first")
        faults = faulty(plane)
        server = ClosingTransport(faults)
        informer = an_informer(Client(server))
        reported = Reported(informer)
        async with running(informer.run()):
            await informer.synced.wait()
            faults.break_watches()  # the stream that brought the list
            await until(lambda: len(server.watches) == 2)
            wanted = [f"m{number}" for number in range(105)]
            began = plane.clock.monotonic()
            await put(plane, *wanted)
            for _ in range(5000):  # turns of the loop, in which virtual time stands still
                await asyncio.sleep(0)
            assert names(informer) == {"first", *wanted}
            assert plane.clock.monotonic() == began  # virtual time: nobody has waited for a timer
        assert [new for _, new in reported.changes if new in wanted] == wanted
        versions = [int(one) for one in server.watches[1:]]
        assert len(versions) == 11
        assert versions == sorted(set(versions))  # each resumes where the last one ended
        lists = [one for one in faults.log if one.method == "GET" and not one.watch]
        assert not lists
        assert sum(not one for one in server.watches) == 1  # the first one only asks for a list


@virtually
async def test_after_410_the_list_is_diffed_and_deletes_are_made_up_for() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a", "b")
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        reported = Reported(informer)
        async with running(informer.run()):
            await informer.synced.wait()
            faults.go_down()
            await plane.client.delete(CONFIG_MAPS, Key("default", "a"))
            await put(plane, "c")
            faults.expire(watches(CONFIG_MAPS), times=1)
            faults.come_back()
            await until(lambda: names(informer) == {"b", "c"})
        assert ("a", None) in reported.changes
        assert reported.changes.count((None, "b")) == 1


@virtually
async def test_410_inside_the_stream_leads_to_a_new_list_too() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            gone = _error(status(410, "Expired", "too old resource version"))
            faults.answer(watches(CONFIG_MAPS), gone, times=1)
            faults.break_watches()
            await put(plane, "b")
            await until(lambda: names(informer) == {"a", "b"})


def _stream(body: bytes) -> Response:
    return Response(200, {"content-type": "application/json"}, body)


def _event(type_: str, name: str, version: int, **more: Any) -> bytes:
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    return json.dumps({"type": type_, "object": {"metadata": meta | more}}).encode() + b"\n"


def _end_of_list(version: int) -> bytes:
    return _event("BOOKMARK", "", version, annotations={ANNOTATION_INITIAL_EVENTS_END: "true"})


def _is_mere_bookmark(event: Any) -> bool:
    marks = event["object"]["metadata"].get("annotations", {})
    return event["type"] == "BOOKMARK" and ANNOTATION_INITIAL_EVENTS_END not in marks


def _error(refusal: Response) -> Response:
    """A refusal as servers send it when the stream is already open."""
    return _stream(b'{"type":"ERROR","object":' + refusal.body + b"}\n")


@virtually
async def test_a_server_whose_history_began_again_is_believed() -> None:
    """Restored from a backup, or started again without its data: versions count from the start."""
    async with virtual_plane() as plane, virtual_plane() as restored:
        await put(plane, *(f"other-{number}" for number in range(50)), "lost", "kept")
        await put(restored, "kept", "new")
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        reported = Reported(informer)
        async with running(informer.run()):
            await informer.synced.wait()
            faults.go_down()
            faults._inner = faulty(restored)
            # As real servers do for a version that lies ahead of them: not even a bookmark.
            faults.drop_event(CONFIG_MAPS, _is_mere_bookmark, times=10**6)
            faults.come_back()
            await until(lambda: names(informer) == {"kept", "new"}, seconds=400)
            kept = await restored.client.get(CONFIG_MAPS, Key("default", "kept"), into=Object)
            assert informer.get(Key("default", "kept")) == kept
            faults._drops.clear()
            await put(restored, "later")
            await until(lambda: "later" in names(informer))
        assert ("lost", None) in reported.changes


@virtually
async def test_what_a_live_list_no_longer_has_is_not_revived_by_a_late_watch() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        faults.delay_watch(CONFIG_MAPS, 10)
        reported = Reported(informer)
        async with running(informer.run()):
            await informer.synced.wait()
            patch = {"metadata": {"labels": {"app": "web"}}}
            await plane.client.patch(CONFIG_MAPS, Key("default", "a"), patch)
            await asyncio.sleep(2)
            await plane.client.delete(CONFIG_MAPS, Key("default", "a"))
            await informer.read_all()
            assert names(informer) == set()
            await asyncio.sleep(30)
        assert [one for one in reported.changes if "a" in one] == [(None, "a"), ("a", None)]


@virtually
async def test_an_error_is_never_an_empty_list() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        reported = Reported(informer)
        async with running(informer.run()):
            await informer.synced.wait()
            faults.deny(touches(CONFIG_MAPS), times=None)
            faults.break_watches()
            await asyncio.sleep(120)
            assert names(informer) == {"a"}
            assert informer.watch_error is not None
            assert "denied" in informer.watch_error
        assert all(new is not None for _, new in reported.changes)


@virtually
async def test_a_server_gone_for_minutes_is_not_asked_in_a_tight_loop() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            faults.log.clear()
            faults.go_down()
            await asyncio.sleep(600)
            assert 10 < len(faults.log) < 100
            faults.come_back()
            await put(plane, "late")
            await until(lambda: names(informer) == {"late"})
            assert informer.watch_error is None


@virtually
async def test_the_pause_doubles_with_every_failure_from_the_first_on() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.deny(touches(CONFIG_MAPS), times=None)
        timing = WatchTiming(backoff=Backoff(base=1, cap=64, jitter=0))
        informer = an_informer(Client(faults), timing=timing)
        async with running(informer.run()):
            await asyncio.sleep(60)
        began = faults.log[0].at
        assert [round(one.at - began) for one in faults.log] == [0, 1, 3, 7, 15, 31]


@virtually
async def test_a_missing_resource_type_is_named_and_awaited() -> None:
    async with virtual_plane() as plane:
        missing = Resource("ray.io", "v1", "rayclusters", "RayCluster")
        informer: Informer[Object] = Informer(plane.client, missing, Object, random=Random(1))
        async with running(informer.run()):
            await until(lambda: informer.watch_error)
            assert informer.watch_error == "rayclusters.ray.io is not installed on the server"
            assert not informer.synced.is_set()


@virtually
async def test_a_watch_that_ends_at_once_is_not_reopened_in_a_tight_loop() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        informer = an_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            faults.answer(watches(CONFIG_MAPS), _stream(b""), times=None)
            faults.break_watches()
            faults.log.clear()
            await asyncio.sleep(60)
            assert len(faults.log) < 150


@virtually
async def test_a_silent_watch_is_given_up_and_nothing_is_missed() -> None:
    async with virtual_plane() as plane:
        faults = faulty(plane)
        informer = an_informer(Client(faults), timing=WatchTiming(idle_timeout=20))
        faults.drop_event(CONFIG_MAPS, lambda event: _named(event, "lost"), times=1)
        async with running(informer.run()):
            await informer.synced.wait()
            # Swallow everything that follows, bookmarks too: the stream is dead but open.
            faults.drop_event(CONFIG_MAPS, times=1000)
            await put(plane, "unseen")
            await asyncio.sleep(15)
            assert names(informer) == set()
            faults._drops.clear()
            await until(lambda: names(informer) == {"unseen"})


def _named(event: Any, name: str) -> bool:
    return bool(event["object"]["metadata"].get("name") == name)


@virtually
async def test_only_selected_objects_are_held() -> None:
    async with virtual_plane() as plane:
        await plane.client.create(CONFIG_MAPS, "default", config_map("ours", app="ray"))
        await plane.client.create(CONFIG_MAPS, "default", config_map("other", app="web"))
        informer = an_informer(plane.client, labels="app=ray")
        async with running(informer.run()):
            await informer.synced.wait()
            assert names(informer) == {"ours"}
            await plane.client.patch(
                CONFIG_MAPS, Key("default", "ours"), {"metadata": {"labels": {"app": "web"}}}
            )
            await until(lambda: names(informer) == set())


@virtually
async def test_several_namespaces_share_one_cache() -> None:
    async with virtual_plane() as plane:
        await put(plane, "a")
        await plane.client.create(CONFIG_MAPS, "kube-system", config_map("b"))
        informer: Informer[Object] = Informer(
            plane.client,
            CONFIG_MAPS,
            Object,
            namespaces=("default", "kube-system"),
            random=Random(1),
        )
        async with running(informer.run()):
            await informer.synced.wait()
            assert {"a", "b"} <= names(informer)
            await plane.client.create(CONFIG_MAPS, "kube-public", config_map("c"))
            await put(plane, "d")
            await until(lambda: "d" in names(informer))
            assert "c" not in names(informer)


@virtually
async def test_indexes_follow_the_objects() -> None:
    async with virtual_plane() as plane:
        informer = an_informer(
            plane.client, indexes={"app": lambda one: [one.metadata.labels.get("app", "")]}
        )
        async with running(informer.run()):
            await informer.synced.wait()
            await plane.client.create(CONFIG_MAPS, "default", config_map("a", app="ray"))
            await until(lambda: informer.by("app", "ray"))
            await plane.client.patch(
                CONFIG_MAPS, Key("default", "a"), {"metadata": {"labels": {"app": "web"}}}
            )
            await until(lambda: informer.by("app", "web"))
            assert informer.by("app", "ray") == ()


# ── objects that do not fit their type ───────────────────────────────────────────────────────


class Fitting(Object, frozen=True, kw_only=True):
    """A view that some objects do not fit, as a CR does not that is older than its schema."""

    data: dict[str, Annotated[str, msgspec.Meta(pattern="^fits")]] = msgspec.field(
        default_factory=dict
    )


async def set_value(plane: MemoryPlane, name: str, value: str) -> None:
    await plane.client.patch(CONFIG_MAPS, Key("default", name), {"data": {"key": value}})


def a_picky_informer(client: Client) -> Informer[Fitting]:
    return Informer(
        client, CONFIG_MAPS, Fitting, namespace="default", labels="app", random=Random(1)
    )


async def put_value(plane: MemoryPlane, name: str, value: str) -> None:
    body = {**config_map(name, app="x"), "data": {"key": value}}
    await plane.client.create(CONFIG_MAPS, "default", body)


def values(informer: Informer[Fitting]) -> dict[str, str]:
    return {one.metadata.name: one.data["key"] for one in informer.all()}


def test_an_object_that_cannot_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def story() -> None:
        async with virtual_plane() as plane:
            await put_value(plane, "good", "fits")
            await put_value(plane, "odd", "does not")
            informer = a_picky_informer(plane.client)
            async with running(informer.run()):
                await informer.synced.wait()
                assert values(informer) == {"good": "fits"}
                await set_value(plane, "good", "fits too")
                await until(lambda: values(informer) == {"good": "fits too"})
                await set_value(plane, "odd", "fits now")
                await until(lambda: values(informer).get("odd") == "fits now")
                assert informer.watch_error is None

    story()
    said = [one.message for one in caplog.records if "cannot be decoded" in one.message]
    assert len(said) == 1
    assert "default/odd" in said[0]


@virtually
async def test_what_is_known_of_an_object_stays_while_it_cannot_be_read() -> None:
    async with virtual_plane() as plane:
        await put_value(plane, "good", "fits")
        await put_value(plane, "odd", "fits")
        faults = faulty(plane)
        informer = a_picky_informer(Client(faults))
        async with running(informer.run()):
            await informer.synced.wait()
            await set_value(plane, "odd", "does not")
            await set_value(plane, "good", "fits too")
            await until(lambda: values(informer)["good"] == "fits too")
            faults.expire(watches(CONFIG_MAPS), times=1)
            faults.break_watches()
            await put_value(plane, "new", "fits")
            await until(lambda: "new" in values(informer))  # by a new list
            await informer.read_all()
            assert values(informer) == {"good": "fits too", "odd": "fits", "new": "fits"}
            await plane.client.delete(CONFIG_MAPS, Key("default", "odd"))
            await until(lambda: "odd" not in values(informer))
