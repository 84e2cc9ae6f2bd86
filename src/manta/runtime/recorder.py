"""Records Events without blocking; aggregates and limits them.

They are written as core/v1, with all fields that `events.k8s.io/v1` requires: that group refuses the first and
last timestamp, by which `kubectl` sorts.

An Event that repeats becomes a series, which is updated ever more rarely. Of many Events that differ only in
their note, the first few are written and the rest are counted in the last of them. An Event that cannot be
written is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Literal, NamedTuple

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import CORE_EVENTS, Resource
from manta.api.times import format_micro_time, format_time
from manta.kube.client import Client
from manta.kube.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    MantaError,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from manta.runtime.backoff import Backoff
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]


class ObjectReference(NamedTuple):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def to(cls, resource: Resource, meta: ObjectMeta) -> ObjectReference:
        return cls(
            resource.api_version,
            resource.kind,
            meta.namespace,
            meta.name,
            meta.uid,
            meta.resource_version,
        )

    def manifest(self) -> dict[str, str]:
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {name: value for name, value in fields.items() if value}


class _Identity(NamedTuple):
    """Events with the same identity are one Event that repeats."""

    regarding: tuple[str, str, str, str]
    controller: str
    type: EventType
    reason: str
    action: str
    note: str

    @property
    def cause(self) -> tuple[object, ...]:
        return self[:5]


@dataclass(slots=True)
class _Known:
    """An Event that was written, and how often it has happened since."""

    identity: _Identity
    regarding: ObjectReference
    key: Key
    first: datetime
    last: datetime
    seen_at: float
    count: int = 1
    reported: int = 0
    """The count that the server has; 0: not created yet."""
    pause: float = 0.0
    """Seconds until the series is updated next; doubles each time."""
    scheduled: bool = False


@dataclass(slots=True)
class _Bucket:
    """How many more notes of one cause may be written as Events of their own."""

    tokens: float
    at: float
    last: _Known | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    queue: int = 1000
    remembered: int = 4096
    forget_after: float = 600.0
    """A repetition after this many seconds is a new Event."""
    notes_burst: int = 10
    """Different notes of one cause on one object at once."""
    notes_refill: float = 60.0
    """Seconds after which one more note is allowed."""
    warnings_burst: int = 3
    """The same for Warnings, which repeat with every attempt and often differ only in a name or number: at
    most five in five minutes."""
    warnings_refill: float = 150.0
    first_report: float = 10.0
    longest_pause: float = 600.0
    tries: int = 5
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, cap=10.0))


class Recorder:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        instance: str = "manta",
        limits: Limits | None = None,
    ) -> None:
        """`instance` names the reporting process: the Pod or the machine."""
        self._client = client
        self._clock = clock
        self._random = random
        self._instance = instance[:128]
        self._limits = limits or Limits()
        self._known: OrderedDict[_Identity, _Known] = OrderedDict()
        self._buckets: OrderedDict[tuple[object, ...], _Bucket] = OrderedDict()
        self._queue: deque[_Known] = deque()
        self._due: list[tuple[float, int, _Known]] = []
        self._order = count()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._forbidden = False
        self.dropped = 0
        self.written = 0

    def event(
        self,
        regarding: ObjectReference,
        type_: EventType,
        reason: str,
        action: str,
        note: str,
        *,
        controller: str = "manta",
    ) -> None:
        """Record an Event. Returns at once; the note is cut to the length that the API accepts."""
        note = note.encode()[:1000].decode(errors="ignore")
        subject = (regarding.kind, regarding.namespace, regarding.name, regarding.uid)
        identity = _Identity(subject, controller, type_, reason, action, note)
        now = self._clock.monotonic()
        known = self._known.get(identity)
        if known and now - known.seen_at <= self._limits.forget_after:
            self._repeat(known, now)
        elif (last := self._too_many_notes(identity, now)) is not None:
            self._repeat(last, now)
        else:
            self._begin(identity, regarding, now)

    async def run(self) -> None:
        """Write recorded Events, one at a time, for ever."""
        while True:
            self._collect_due()
            if self._queue:
                self._idle.clear()
                await self._deliver(self._queue.popleft())
                continue
            self._idle.set()
            self._wake.clear()
            pause = self._due[0][0] - self._clock.monotonic() if self._due else None
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def flush(self, within: float = 2.0) -> None:
        """Wait until the queued Events are written, at most `within` seconds."""
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d Events were not written", len(self._queue))

    # ── counting ─────────────────────────────────────────────────────────────────────────

    def _begin(self, identity: _Identity, regarding: ObjectReference, now: float) -> None:
        moment = self._clock.now()
        name = f"{regarding.name[:230]}.{self._random.getrandbits(64):016x}"
        key = Key(regarding.namespace or "default", name)
        known = _Known(identity, regarding, key, moment, moment, now)
        self._known[identity] = known
        self._known.move_to_end(identity)
        while len(self._known) > self._limits.remembered:
            self._known.popitem(last=False)
        self._buckets[identity.cause].last = known
        self._enqueue(known)

    def _repeat(self, known: _Known, now: float) -> None:
        known.count += 1
        known.last = self._clock.now()
        known.seen_at = now
        if not known.scheduled:
            known.scheduled = True
            grown = max(known.pause * 2, self._limits.first_report)
            known.pause = min(grown, self._limits.longest_pause)
            heappush(self._due, (now + known.pause, next(self._order), known))
            self._wake.set()

    def _too_many_notes(self, identity: _Identity, now: float) -> _Known | None:
        """The Event in which this one is counted; None: it is written itself."""
        limits = self._limits
        bucket = self._buckets.get(identity.cause)
        burst, refill = limits.notes_burst, limits.notes_refill
        if identity.type == "Warning":
            burst, refill = limits.warnings_burst, limits.warnings_refill
        if bucket is None:
            bucket = self._buckets[identity.cause] = _Bucket(burst, now)
        self._buckets.move_to_end(identity.cause)
        while len(self._buckets) > limits.remembered:
            self._buckets.popitem(last=False)
        refilled = bucket.tokens + (now - bucket.at) / refill
        bucket.tokens, bucket.at = min(refilled, burst), now
        if bucket.tokens < 1 and bucket.last is not None:
            return bucket.last
        bucket.tokens -= 1
        return None

    def _collect_due(self) -> None:
        now = self._clock.monotonic() + 1e-6
        while self._due and self._due[0][0] <= now:
            _, _, known = heappop(self._due)
            known.scheduled = False
            self._enqueue(known)

    def _enqueue(self, known: _Known) -> None:
        if len(self._queue) >= self._limits.queue:
            self.dropped += 1
            return
        self._queue.append(known)
        self._idle.clear()
        self._wake.set()

    # ── writing ──────────────────────────────────────────────────────────────────────────

    async def _deliver(self, known: _Known) -> None:
        for attempt in range(1, self._limits.tries + 1):
            try:
                await self._write(known)
            except (TooManyRequests, Unavailable) as error:
                log.debug("event %s: %s", known.identity.reason, error)
            except Forbidden as error:
                if not self._forbidden:  # log once; the RBAC may be older than the operator
                    self._forbidden = True
                    log.warning("Events cannot be written: %s", error)
                break
            except ApiError as error:
                # For example, the namespace is being deleted: a retry does not help.
                log.debug("event %s refused: %s", known.identity.reason, error)
                break
            except MantaError as error:
                log.debug("event %s: %s", known.identity.reason, error)
            else:
                self.written += 1
                return
            await asyncio.sleep(self._limits.backoff.delay(attempt, self._random))
        self.dropped += 1

    async def _write(self, known: _Known) -> None:
        count = known.count  # may grow while we write
        if known.reported == count:
            return
        if known.reported:
            try:
                await self._report(known)
            except NotFound:
                known.reported = 0  # Events expire after an hour: create it again
            else:
                known.reported = count
                return
        try:
            await self._client.create(CORE_EVENTS, known.key.namespace, self._manifest(known))
        except AlreadyExists:  # the response to an earlier attempt was lost
            if count > 1:
                await self._report(known)
        known.reported = count

    async def _report(self, known: _Known) -> None:
        last = {"lastTimestamp": format_time(known.last), "count": known.count}
        await self._client.patch(CORE_EVENTS, known.key, {"series": _series(known), **last})

    def _manifest(self, known: _Known) -> dict[str, Any]:
        identity = known.identity
        manifest: dict[str, Any] = {
            "apiVersion": CORE_EVENTS.api_version,
            "kind": CORE_EVENTS.kind,
            "metadata": {"name": known.key.name, "namespace": known.key.namespace},
            "eventTime": format_micro_time(known.first),
            "firstTimestamp": format_time(known.first),
            "lastTimestamp": format_time(known.last),
            "count": known.count,
            "source": {"component": identity.controller},
            "reportingComponent": identity.controller,
            "reportingInstance": self._instance,
            "action": identity.action,
            "reason": identity.reason,
            "involvedObject": known.regarding.manifest(),
            "message": identity.note,
            "type": identity.type,
        }
        if known.count > 1:
            manifest["series"] = _series(known)
        return manifest


def _series(known: _Known) -> dict[str, Any]:
    return {"count": known.count, "lastObservedTime": format_micro_time(known.last)}
