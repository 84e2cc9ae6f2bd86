"""A reconcile that raised, made visible on its object: a condition and a Warning Event.

Nothing here uses the code that failed. The object is read from the server as plain data, so that an
object that cannot be decoded gets its condition too. A failure that says nothing about the object
(a conflict, an API server that is away) changes nothing on it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import PurePath
from traceback import walk_tb
from typing import Any, Final

import msgspec

from manta.api.meta import Key, Object, ObjectMeta
from manta.api.resources import Resource
from manta.api.text import without_credentials
from manta.api.times import format_time
from manta.kube.client import Client
from manta.kube.errors import (
    Conflict,
    MantaError,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from manta.runtime.clock import Clock
from manta.runtime.freshness import Freshness, Owner
from manta.runtime.gate import WritesStopped
from manta.runtime.phases import Phase
from manta.runtime.recorder import ObjectReference, Recorder

log = logging.getLogger(__name__)

CONDITION: Final = "ReconcileError"
"""True while the last reconcile of an object raised; absent otherwise."""
REASON: Final = "ReconcileFailed"
"""The reason of the condition and of the Event."""


@dataclass(frozen=True, slots=True)
class FailureCondition:
    """The condition that shows a reconcile that raised."""

    type: str
    status: str


RECONCILE_ERROR: Final = FailureCondition(CONDITION, "True")
"""The condition of the only controller of a kind. A second controller of the same kind shows its failures by a condition
that is its own, so that the two do not fight."""

TRANSIENT: Final = (
    Conflict,
    Unreachable,
    Unavailable,
    TooManyRequests,
    Unauthorized,
    WritesStopped,
)
"""Errors that are about the API server or the lease, not about the object."""

REFRESH_SECONDS: Final = 60.0
"""A condition that was written is left alone for so long, even if the message changes."""
MAX_REMEMBERED: Final = 4096

_PHASES_WITHOUT_SECRETS: Final = frozenset((Phase.DECODE, Phase.PLAN, Phase.STATUS, Phase.EVENTS))
"""Phases that read no Secret: the text of their exceptions may be shown. So may that of a decoder, which
names fields and types, but no values."""


class _AnyObject(Object, frozen=True, kw_only=True):
    """An object of any kind: only its metadata has to be valid."""

    status: Any = None


def describe(phase: Phase, error: Exception | str) -> str:
    """What went wrong, in one bounded line without credentials."""
    if isinstance(error, str):
        what = error
    elif isinstance(error, MantaError):
        what = str(error)
    else:
        safe = phase in _PHASES_WITHOUT_SECRETS or isinstance(error, msgspec.MsgspecError)
        text = f": {error}" if safe and str(error) else ""
        what = f"{type(error).__name__}{text}{_code_location(error)}"
    return f"{phase} failed: {without_credentials(what)}"


def _code_location(error: Exception) -> str:
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    if not frames:
        return ""
    file, line = frames[-1]
    return f" ({PurePath(file).name}:{line})"


class FailureReporter:
    """Writes and removes the condition of one kind's objects, on behalf of one controller."""

    def __init__(
        self,
        controller: str,
        resource: Resource,
        client: Client,
        freshness: Freshness,
        recorder: Recorder,
        clock: Clock,
        condition: FailureCondition = RECONCILE_ERROR,
    ) -> None:
        self._controller = controller
        self._resource = resource
        self._client = client
        self._freshness = freshness
        self._recorder = recorder
        self._clock = clock
        self._condition = condition
        self._written_at: OrderedDict[Key, float] = OrderedDict()
        """When the condition of an object was written last."""

    async def failed(self, key: Key, phase: Phase, error: Exception | str) -> None:
        """Show the failure on its object. Never raises for what the server answers."""
        if isinstance(error, TRANSIENT):
            return
        message = describe(phase, error)
        written_at = self._written_at.get(key)
        now = self._clock.monotonic()
        try:
            live = await self._client.get(self._resource, key, into=_AnyObject)
            self._event(live.metadata, message)
            if written_at is None or now - written_at >= REFRESH_SECONDS:
                await self._set(live, message, decodable=phase is not Phase.DECODE)
                self._remember(key, now)
        except NotFound:
            self._written_at.pop(key, None)
        except MantaError as problem:
            log.warning("the condition %s could not be written: %s", self._condition.type, problem)

    async def succeeded(self, key: Key, cached: Any) -> None:
        """Remove the condition if the object has one. `cached`: the object as the cache has it."""
        if self._written_at.pop(key, None) is None and not self._is_shown_on(cached):
            return
        try:
            live = await self._client.get(self._resource, key, into=_AnyObject)
            known = _conditions(live)
            others = [one for one in known if not self._is_ours(one.get("type"), one.get("reason"))]
            if len(others) != len(known):
                await self._write(live.metadata, others, decodable=True)
        except NotFound:
            return
        except MantaError as problem:
            log.warning("the condition %s could not be removed: %s", self._condition.type, problem)

    def _event(self, meta: ObjectMeta, message: str) -> None:
        regarding = ObjectReference.to(self._resource, meta)
        self._recorder.event(
            regarding, "Warning", REASON, "Reconcile", message, controller=self._controller
        )

    async def _set(self, live: _AnyObject, message: str, *, decodable: bool) -> None:
        found, (kind, status) = _conditions(live), (self._condition.type, self._condition.status)
        before = next((one for one in found if one.get("type") == kind), {})
        if before.get("status") == status and before.get("message") == message:
            return
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        condition = {
            "type": kind,
            "status": status,
            "reason": REASON,
            "message": message,
            "lastTransitionTime": since or format_time(self._clock.now()),
        }
        others = [one for one in found if one.get("type") != kind]
        await self._write(live.metadata, [*others, condition], decodable=decodable)

    async def _write(self, meta: ObjectMeta, conditions: list[Any], *, decodable: bool) -> None:
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": guard, "status": {"conditions": conditions}}
        written = await self._client.patch(self._resource, meta.key, body, subresource="status")
        if decodable:  # the cache never shows an object that cannot be decoded
            owner = Owner(self._controller, meta.key)
            new = written.metadata
            self._freshness.note_write(
                owner, self._resource, meta.key, new.resource_version, new.labels
            )

    def _is_shown_on(self, cached: Any) -> bool:
        status = getattr(cached, "status", None)
        found = getattr(status, "conditions", ())
        return any(self._is_ours(one.type, getattr(one, "reason", "")) for one in found)

    def _is_ours(self, kind: object, reason: object) -> bool:
        """A condition of its own may say other things too; `ReconcileError` only says this one."""
        return kind == self._condition.type and (kind == CONDITION or reason == REASON)

    def _remember(self, key: Key, now: float) -> None:
        self._written_at[key] = now
        self._written_at.move_to_end(key)
        while len(self._written_at) > MAX_REMEMBERED:
            self._written_at.popitem(last=False)


def _conditions(live: _AnyObject) -> list[dict[str, Any]]:
    """The conditions on the object; what is no condition at all is dropped with the next write."""
    found = live.status.get("conditions") if isinstance(live.status, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
