"""Lists, then watches, one resource in one namespace, for ever.

- An error is never taken for an empty list.
- A watch resumes where it ended. The reflector lists again only after a 410 (status or event).
- A server that cannot stream a list is asked for pages. A stream without data is given up.
- Failed requests are retried with growing, jittered pauses; `Informer.watch_error` has the reason.
- One object that cannot be decoded hides no other.
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
    Forbidden,
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
from manta.runtime.interning import Share, share
from manta.runtime.selection import Selection, UnreadableObjects, key_of, list_readable, read_event
from manta.runtime.versions import is_newer

T = TypeVar("T", bound=Named)
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Receives what a reflector reads."""

    def on_list(
        self,
        scope: str,
        objects: Sequence[T_contra],
        resource_version: str,
        unreadable: Collection[Key] = (),
    ) -> None:
        """The objects are shared already. `unreadable` objects exist too: their cached state is neither updated
        nor dropped."""
        ...

    def on_event(self, scope: str, event: WatchEvent[Any]) -> None: ...
    def on_readability(self, key: Key, why: str | None) -> None:
        """Why an object cannot be decoded; None: it can be again."""
        ...

    def on_watch_error(self, scope: str, why: str | None) -> None:
        """Why this scope cannot be watched; None: it can be again."""
        ...

    def on_forbidden(self, scope: str) -> None:
        """The user may not list or watch this scope (any more): 403."""
        ...


@dataclass(frozen=True, slots=True)
class WatchTiming:
    """Timeouts of a reflector, in seconds."""

    watch_seconds: int = 300
    """Duration of one watch request; up to as much again is added at random."""
    idle_timeout: float = 150.0
    """A stream without data or bookmark for this long is given up."""
    min_duration: float = 1.0
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
        timing: WatchTiming,
        share: Share = share,
    ) -> None:
        self._client = client
        self._share = share
        self._selection = selection
        self._scope = scope
        self._sink = sink
        self._random = random
        self._timing = timing
        self._version = ""
        self._streams_lists = True
        self._failures = 0
        self._listed_at = -math.inf
        self._lists_lost = 0
        self._unreadable = UnreadableObjects(sink.on_readability)
        self._one_by_one = False
        """An object could not be decoded: each is now decoded by itself."""
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
                if self._one_by_one:  # not an object is malformed, but the stream
                    await self._pause_after(error)
                self._one_by_one = True
            except (MantaError, TimeoutError) as error:
                if isinstance(error, TimeoutError) and self._failures:
                    # No data again after resuming: a server restored from a backup may never reach this
                    # version. Only a new list shows that.
                    self._version = ""
                await self._pause_after(error)
            self.restarts += 1

    async def _pause_after(self, error: Exception) -> None:
        self._failures += 1
        self._sink.on_watch_error(self._scope, self._reason(error))
        if isinstance(error, Forbidden):
            self._sink.on_forbidden(self._scope)
        await self._pause(_longest_pause(error, self._failures))

    async def _keep_up(self) -> None:
        """One list, if the last one is no longer valid, or one watch."""
        if self._version:
            await self._stream(self._version)
        elif self._one_by_one or not self._streams_lists or not await self._stream_list():
            await self._page_list()

    async def _page_list(self) -> None:
        listed = await list_readable(self._client, self._selection, self._scope)
        self._unreadable.replace(listed.unreadable)
        self._one_by_one = bool(listed.unreadable)
        items = [self._share(one) for one in listed.items]
        self._took(items, listed.resource_version, listed.unreadable)

    async def _stream_list(self) -> bool:
        """Read the list as the initial events of a watch. False: it must be requested in pages."""
        try:
            await self._stream("", collected={})
        except (Invalid, BadRequest, TimeoutError):
            if self._version:  # the list was complete; the watch after it failed
                raise
            self._streams_lists = False
        except Unavailable:
            # Some servers answer so, also inside the stream, for resources that they cannot stream. It may
            # be temporary: the next list is requested as a stream again.
            if self._version:
                raise
        else:
            self._streams_lists = bool(self._version)  # else it ended before the list was complete
        return bool(self._version)

    async def _stream(self, since: str, collected: dict[Key, T] | None = None) -> None:
        """Read one watch to its end. With `collected`, it begins with a list, which counts only if complete."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        events = self._watch(since, initial_events=collected is not None)
        async with aclosing(events), asyncio.timeout(self._timing.idle_timeout) as alarm:
            heard = started
            async for event in events:
                if (
                    loop.time() - heard > self._timing.idle_timeout / 100
                ):  # rescheduling costs more than an event
                    heard = loop.time()
                    alarm.reschedule(heard + self._timing.idle_timeout)
                if collected is None:
                    self._pass_on(event)
                elif event.type == "DELETED":
                    collected.pop(event.object.metadata.key, None)
                elif event.type != "BOOKMARK":
                    # At once: strings that are dropped only after the whole list leave holes in memory.
                    collected[event.object.metadata.key] = self._share(event.object)
                elif event.initial_end:
                    self._took(tuple(collected.values()), event.resource_version)
                    collected = None
                else:
                    return  # the server ignored sendInitialEvents: no end mark will come
        # A watch that had events is resumed at once, however soon it ended: the server closes a watch when
        # its buffer is full, and more events are waiting.
        if self._version == since and loop.time() - started < self._timing.min_duration:
            await self._pause()

    def _pass_on(self, event: WatchEvent[Any]) -> None:
        if is_newer(self._version, event.resource_version):
            # The server was restored from a backup: the cached state is invalid.
            raise Gone(410, "Expired", "the server's resourceVersion went back")
        self._sink.on_event(self._scope, self._read(event) if self._one_by_one else event)
        self._version = event.resource_version or self._version
        if self._failures:
            self._recovered()

    def _read(self, event: WatchEvent[msgspec.Raw]) -> WatchEvent[Any]:
        """The event with its object decoded; a bookmark if that is impossible."""
        try:
            read = read_event(self._selection, event)
        except Malformed as error:
            self._unreadable.add(key_of(event.object, self._selection), str(error))
            return WatchEvent("BOOKMARK", Object(), event.resource_version)
        self._unreadable.remove(read.object.metadata.key)
        return read

    def _took(
        self, items: Sequence[T], resource_version: str, unreadable: Collection[Key] = ()
    ) -> None:
        self._version = resource_version
        self._listed_at = asyncio.get_running_loop().time()
        self._sink.on_list(self._scope, items, resource_version, unreadable)
        self._recovered()

    def _recovered(self) -> None:
        self._failures = 0
        self._sink.on_watch_error(self._scope, None)

    def _watch(
        self, resource_version: str, *, initial_events: bool = False
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        chosen = self._selection
        into: type[Any] = msgspec.Raw if self._one_by_one else chosen.into
        lifetime = self._timing.watch_seconds
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
        """The first 410 is normal. A server that answers 410 to every request, or right after a list, must
        not be asked in a tight loop."""
        forgetful = asyncio.get_running_loop().time() - self._listed_at < self._timing.min_duration
        self._lists_lost = self._lists_lost + 1 if forgetful else 0
        if self._failures or self._lists_lost:
            await asyncio.sleep(self._delay(max(self._failures, self._lists_lost)))
        self._failures += 1

    async def _pause(self, longest: float = math.inf) -> None:
        await asyncio.sleep(min(self._delay(self._failures), longest))

    def _delay(self, failures: int) -> float:
        return self._timing.backoff.delay(failures, self._random)

    def _reason(self, error: Exception) -> str:
        name = self._selection.resource.group_resource
        if isinstance(error, NotFound) and error.of_type:
            return f"{name} is not installed on the server"
        if isinstance(error, TimeoutError):
            return f"the watch of {name} had no data for {self._timing.idle_timeout:.0f} s"
        return f"{name}: {error}"


def _longest_pause(error: Exception, failures: int) -> float:
    """A server that lacks a CRD is asked often: someone may be installing it."""
    if isinstance(error, NotFound) and error.of_type:
        return 1.0 if failures < 60 else 5.0
    return math.inf
