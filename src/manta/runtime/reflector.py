"""Keeps up with one resource in one namespace: list, then watch, for ever.

Promises: an error is never an empty list; a watch resumes where it ended and lists anew only
when the server has forgotten that point (410, as a status or inside the stream); a server that
cannot stream a list is asked to page it; a stream that has gone silent is given up; a server
that is gone, refuses us, forgets what it just listed or does not know the resource is asked
again with growing, jittered pauses, and the reason is there to be seen; one object that cannot be
read hides no other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from manta.api.meta import Key, Object
from manta.kube.client import Client
from manta.kube.errors import (
    BadRequest,
    Gone,
    Invalid,
    Malformed,
    MantaError,
    NotFound,
    Unavailable,
)
from manta.kube.watch_stream import WatchEvent
from manta.runtime.backoff import WATCH_BACKOFF, Backoff
from manta.runtime.cache import Named
from manta.runtime.selection import OddObjects, Selection, key_of, list_readable, read_event
from manta.runtime.versions import is_newer

T = TypeVar("T", bound=Named)
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Who takes in what a reflector learns."""

    def listed(
        self,
        scope: str,
        objects: Sequence[T_contra],
        resource_version: str,
        unreadable: Collection[Key] = (),
    ) -> None:
        """`unreadable` are there too: what is known of them is neither mended nor dropped."""
        ...

    def happened(self, scope: str, event: WatchEvent[Any]) -> None: ...
    def readability(self, key: Key, why: str | None) -> None:
        """Why an object cannot be decoded; None: it can be again."""
        ...

    def trouble_in(self, scope: str, why: str | None) -> None:
        """Why this scope cannot be kept up; None: it can again."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient a reflector is. Seconds."""

    watch_seconds: int = 300
    """How long one watch request lives; chance adds up to as much again."""
    silence: float = 150.0
    """A stream without so much as a bookmark for this long is taken for dead."""
    brief: float = 1.0
    """A watch that ends sooner than this without an event counts as a failure."""
    backoff: Backoff = WATCH_BACKOFF


class Reflector(Generic[T]):
    def __init__(
        self,
        client: Client,
        selection: Selection[T],
        scope: str,
        sink: Sink[T],
        random: Random,
        pace: Pace,
    ) -> None:
        self._client = client
        self._selection = selection
        self._scope = scope
        self._sink = sink
        self._random = random
        self._pace = pace
        self._version = ""
        self._streams_lists = True
        self._failures = 0
        self._listed_at = -math.inf
        self._lists_lost = 0
        self._odd = OddObjects(sink.readability)
        self._one_by_one = False
        """An object could not be read: each is now decoded by itself."""
        self.restarts = 0

    async def run(self) -> None:
        """Never returns; raises only cancellation and bugs."""
        while True:
            try:
                await self._keep_up()
            except Gone:
                self._version = ""
                await self._pause_after_gone()
            except Malformed as error:
                if self._one_by_one:  # then it is no object that is odd, but the stream
                    await self._pause_after(error)
                self._one_by_one = True
            except (MantaError, TimeoutError) as error:
                if isinstance(error, TimeoutError) and self._failures:
                    # Silent again where it was resumed: a point that this server never reaches,
                    # because it was restored from a backup, is told apart by a new list only.
                    self._version = ""
                await self._pause_after(error)
            self.restarts += 1

    async def _pause_after(self, error: Exception) -> None:
        self._failures += 1
        self._sink.trouble_in(self._scope, self._reason(error))
        await self._pause(_longest_pause(error, self._failures))

    async def _keep_up(self) -> None:
        """One list, if the last one is of no more use, or one watch."""
        if self._version:
            await self._stream(self._version)
        elif self._one_by_one or not self._streams_lists or not await self._stream_list():
            await self._page_list()

    async def _page_list(self) -> None:
        listed = await list_readable(self._client, self._selection, self._scope)
        self._odd.listed(listed.unreadable)
        self._one_by_one = bool(listed.unreadable)
        self._took(listed.items, listed.resource_version, listed.unreadable)

    async def _stream_list(self) -> bool:
        """Take the list from the head of a watch. False: this server must be asked to page it."""
        try:
            await self._stream("", collected={})
        except (Invalid, BadRequest, TimeoutError):
            if self._version:  # the list was whole; what failed is the watch behind it
                raise
            self._streams_lists = False
        except Unavailable:
            # Also said inside the stream, by servers that cannot do it for this resource. It may
            # be a passing weakness: the next list is asked for as a stream again.
            if self._version:
                raise
        else:
            self._streams_lists = bool(self._version)  # else it ended before the list was whole
        return bool(self._version)

    async def _stream(self, since: str, collected: dict[Key, T] | None = None) -> None:
        """Follow one watch to its end. With `collected`, its head is a list: half a list is none."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        events = self._watch(since, initial_events=collected is not None)
        async with aclosing(events), asyncio.timeout(self._pace.silence) as alarm:
            heard = started
            async for event in events:
                if loop.time() - heard > self._pace.silence / 100:  # it costs more than an event
                    heard = loop.time()
                    alarm.reschedule(heard + self._pace.silence)
                if collected is None:
                    self._pass_on(event)
                elif event.type == "DELETED":
                    collected.pop(event.object.metadata.key, None)
                elif event.type != "BOOKMARK":
                    collected[event.object.metadata.key] = event.object
                elif event.initial_end:
                    self._took(tuple(collected.values()), event.resource_version)
                    collected = None
                else:
                    return  # it did not understand the question: no end mark will come
        # A watch that brought something is resumed at once, however soon the server closed it: it does
        # so when its own buffer is full, and what is waited for is already there.
        if self._version == since and loop.time() - started < self._pace.brief:
            await self._pause()

    def _pass_on(self, event: WatchEvent[Any]) -> None:
        if is_newer(self._version, event.resource_version):
            # Restored from a backup, say: what we know is of a past that never was.
            raise Gone(410, "Expired", "the server's history began anew")
        self._sink.happened(self._scope, self._read(event) if self._one_by_one else event)
        self._version = event.resource_version or self._version
        if self._failures:
            self._recovered()

    def _read(self, event: WatchEvent[msgspec.Raw]) -> WatchEvent[Any]:
        """The event, its object read; of an odd one no more is told than that time has passed."""
        try:
            read = read_event(self._selection, event)
        except Malformed as error:
            self._odd.found(key_of(event.object, self._selection), str(error))
            return WatchEvent("BOOKMARK", Object(), event.resource_version)
        self._odd.mended(read.object.metadata.key)
        return read

    def _took(
        self, items: Sequence[T], resource_version: str, unreadable: Collection[Key] = ()
    ) -> None:
        self._version = resource_version
        self._listed_at = asyncio.get_running_loop().time()
        self._sink.listed(self._scope, items, resource_version, unreadable)
        self._recovered()

    def _recovered(self) -> None:
        self._failures = 0
        self._sink.trouble_in(self._scope, None)

    def _watch(
        self, resource_version: str, *, initial_events: bool = False
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        chosen = self._selection
        into: type[Any] = msgspec.Raw if self._one_by_one else chosen.into
        lifetime = self._pace.watch_seconds
        return self._client.watch(
            chosen.resource,
            self._scope,
            into=into,
            labels=chosen.labels,
            fields=chosen.fields,
            resource_version=resource_version,
            initial_events=initial_events,
            timeout_seconds=lifetime + self._random.randrange(lifetime),
        )

    async def _pause_after_gone(self) -> None:
        """The first 410 is daily business. A server that answers every list or watch so, or that
        forgets a list as soon as it has given it, must not be asked in a tight loop."""
        forgetful = asyncio.get_running_loop().time() - self._listed_at < self._pace.brief
        self._lists_lost = self._lists_lost + 1 if forgetful else 0
        if self._failures or self._lists_lost:
            await asyncio.sleep(self._delay(max(self._failures, self._lists_lost)))
        self._failures += 1

    async def _pause(self, longest: float = math.inf) -> None:
        await asyncio.sleep(min(self._delay(self._failures), longest))

    def _delay(self, failures: int) -> float:
        return self._pace.backoff.delay(failures, self._random)

    def _reason(self, error: Exception) -> str:
        name = self._selection.resource.group_resource
        if isinstance(error, NotFound) and error.of_type:
            return f"{name} is not installed on the server"
        if isinstance(error, TimeoutError):
            return f"the watch of {name} was silent for {self._pace.silence:.0f} s"
        return f"{name}: {error}"


def _longest_pause(error: Exception, failures: int) -> float:
    """A server that is well but lacks a CRD may be asked often: someone is about to install it."""
    if isinstance(error, NotFound) and error.of_type:
        return 1.0 if failures < 60 else 5.0
    return math.inf
