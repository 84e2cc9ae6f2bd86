"""Carries out a plan: one kube action, one client call; stage by stage, concurrently within one.

Promises: later stages are tried only when the earlier ones succeeded (or said that they are
independent); the fan-out starts at one and grows while all goes well, and a large plan stands
back for small ones (`pace.py`); every write is noted with freshness; a lost reply
is a failure that says `unknown`, and the object is read before the key runs again.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, assert_never

from manta.api.meta import Key, Object, ObjectMeta
from manta.api.resources import (
    INGRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from manta.kube.client import Client
from manta.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    MantaError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from manta.reconcile.actions import Action, Call, Create, Delete, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome, Result
from manta.reconcile.pace import LARGE, Courtesy, Pace
from manta.reconcile.plan import Plan, Stage
from manta.runtime.freshness import Freshness, Owner
from manta.runtime.gate import WritesStopped

PerformCall = Callable[[Call], Awaitable[Mapping[str, Any]]]
"""How a controller carries out what is not a Kubernetes write."""

FIELD_MANAGER = "manta"

# What fails for one object will fail for the next: no use to go on with the stage.
_SYSTEMIC = (Unreachable, Unavailable, TooManyRequests, Forbidden, Unauthorized, WritesStopped)

_USED_AS_FOUND: Final = frozenset(
    {SECRETS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, PERSISTENT_VOLUME_CLAIMS, ROUTES}
)
"""What only has to be there: one that nobody controls is the user's, and is used as it is, as KubeRay
does. Of other kinds (Pods, Jobs, Services, Ingresses) it would be mistaken for our own work."""

_UNSEEN: Final = frozenset({ROLES, ROLE_BINDINGS, ROUTES, INGRESSES})
"""Of these, caches show only what bears our labels: others would be asked for in every round."""

FOUND_FOR: Final = 60.0
"""Seconds for which an object that no cache shows is taken to be there still."""

log = logging.getLogger(__name__)


class OwnedByAnotherError(MantaError):
    """The name is taken by an object that is not ours: we neither use nor change it."""


class BeingDeletedError(MantaError):
    """The name is still held by an object on its way out."""


class _Crew:
    """Those that carry out one stage: as many at once as the pace allows."""

    def __init__(
        self, stage: Stage, pace: Pace, one: Callable[[Action], Awaitable[Result | Failure]]
    ) -> None:
        self._stage = stage
        self._pace = pace
        self._one = one
        self._busy = 0
        self._back = asyncio.Event()
        self.results: dict[int, Result | Failure] = {}
        self.gave_up = False
        """Something failed that would fail again."""

    async def room(self) -> None:
        """Until one more may be under way."""
        while self._busy >= self._pace.width and not self.gave_up:
            self._back.clear()
            await self._back.wait()
        self._busy += 1

    async def carry_out(self, number: int, action: Action) -> None:
        """With the room that was waited for."""
        clock = asyncio.get_running_loop().time
        began = clock()
        result = self.results[number] = await self._one(action)
        self._busy -= 1
        if isinstance(result, Result):
            self._pace.went_well(clock() - began)
        elif result.matters and _ends(self._stage, result.error):
            self.gave_up = True
        self._back.set()


class KubePerformer:
    def __init__(self, client: Client, freshness: Freshness) -> None:
        self._client = client
        self._freshness = freshness
        self._courtesy = Courtesy()
        self._found: dict[tuple[Resource, Key], float] = {}
        """The user's own that are used and not seen, and until when they are not asked for again."""

    async def apply(
        self, owner: Owner, plan: Plan, perform_call: PerformCall | None = None
    ) -> Outcome:
        """Carry out the plan of one key. Never raises for what the server or Ray answers."""
        if not plan.stages:
            return UNTRIED
        pace = Pace(is_large=len(plan.actions) > LARGE)
        if pace.is_large:
            return await self._stages(owner, plan, pace, perform_call)
        makes = any(isinstance(one, Create) for one in plan.actions)
        with self._courtesy.owed_to_small(lingers=makes):
            return await self._stages(owner, plan, pace, perform_call)

    async def _stages(
        self, owner: Owner, plan: Plan, pace: Pace, perform_call: PerformCall | None
    ) -> Outcome:
        done: list[Result] = []
        failures: list[Failure] = []
        skipped: list[Action] = []
        stopped = False
        for stage in plan.stages:
            if stopped:
                skipped += stage.actions
                continue
            results, left = await self._stage(owner, stage, pace, perform_call)
            skipped += left
            failed = [one for one in results if isinstance(one, Failure)]
            done += [one for one in results if isinstance(one, Result)]
            failures += failed
            stopped = any(one.matters for one in failed) and not stage.independent
        return Outcome(tuple(done), tuple(failures), tuple(skipped))

    async def _stage(
        self, owner: Owner, stage: Stage, pace: Pace, perform_call: PerformCall | None
    ) -> tuple[list[Result | Failure], tuple[Action, ...]]:
        """What became of the actions that were tried, and those that were not."""
        pace.begin_stage()
        crew = _Crew(stage, pace, lambda action: self._one(owner, action, perform_call))
        try:
            await self._send_out(crew, stage.actions, pace)
        except ExceptionGroup as bugs:
            raise bugs.exceptions[0] from bugs  # what a round ended with is told in its words
        results = [crew.results[number] for number in sorted(crew.results)]
        if any(isinstance(one, Failure) for one in results):
            pace.failed()
        return results, stage.actions[len(results) :]

    async def _send_out(self, crew: _Crew, actions: tuple[Action, ...], pace: Pace) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, action in enumerate(actions):
                await crew.room()
                await self._courtesy.stand_back(pace)
                if crew.gave_up:
                    return
                if len(actions) == 1:
                    await crew.carry_out(number, action)
                else:
                    tasks.create_task(crew.carry_out(number, action))

    async def _one(
        self, owner: Owner, action: Action, perform_call: PerformCall | None
    ) -> Result | Failure:
        log.debug("%s %s: %s", type(action).__name__, action.key, action.why or action.cause)
        if isinstance(action, Call):
            return await _call(action, perform_call)
        try:
            return await self._write(owner, action)
        except asyncio.CancelledError:
            self._note_unknown(owner, action)
            raise
        except MantaError as error:
            if error.unknown or isinstance(error, Conflict):
                self._note_unknown(owner, action)
            return Failure(action, error, unknown=error.unknown)

    def _note_unknown(self, owner: Owner, action: Create | Patch | Delete) -> None:
        named = not isinstance(action, Create) or "name" in action.manifest["metadata"]
        self._freshness.note_unknown(owner, action.resource, action.key, named=named)

    async def _write(self, owner: Owner, action: Create | Patch | Delete) -> Result:
        match action:
            case Create():
                return await self._create(owner, action)
            case Patch():
                return await self._patch(owner, action)
            case Delete():
                return await self._delete(owner, action)
            case _:
                assert_never(action)

    # ── the three verbs ──────────────────────────────────────────────────────────────────

    async def _create(self, owner: Owner, action: Create) -> Result:
        now = asyncio.get_running_loop().time()
        if self._found.get((action.resource, action.key), now) > now:
            return Result(action, action.key, existed=True)
        body = _with_secrets(action)
        try:
            written = await self._client.create(action.resource, action.key.namespace, body)
        except AlreadyExists:
            if not action.adopt or "name" not in action.manifest["metadata"]:
                raise
            return await self._adopt(owner, action)
        return self._noted(owner, action, written.metadata)

    async def _adopt(self, owner: Owner, action: Create) -> Result:
        """The name is taken: fine if it is by our own earlier self, or by what the user put there
        to be used; else a failure with a name."""
        found = (await self._client.get(action.resource, action.key, into=Object)).metadata
        theirs = found.controller
        is_ours = (theirs.uid if theirs else None) == _controller_uid(action.manifest)
        if not is_ours and (theirs or action.resource not in _USED_AS_FOUND):
            whose = f"belongs to {theirs.kind} {theirs.name}" if theirs else "has no owner"
            raise OwnedByAnotherError(
                f"{action.resource.kind} {action.key} already exists and {whose}"
            )
        if found.deletion_timestamp is not None:
            raise BeingDeletedError(f"{action.resource.kind} {action.key} is still being deleted")
        if action.resource in _UNSEEN:
            if is_ours:
                found = await self._relabelled(action, found)
            else:
                self._remember(action.resource, action.key)
        return self._noted(owner, action, found, existed=True)

    async def _relabelled(self, action: Create, found: ObjectMeta) -> ObjectMeta:
        """One of ours that lost a label was lost to the caches; nothing else of it is mended here."""
        wanted: Mapping[str, str] = action.manifest["metadata"].get("labels") or {}
        lost = {name: value for name, value in wanted.items() if found.labels.get(name) != value}
        if not lost:
            return found
        patch = {"metadata": {"uid": found.uid, "labels": lost}}
        return (await self._client.patch(action.resource, action.key, patch)).metadata

    def _remember(self, resource: Resource, key: Key) -> None:
        now = asyncio.get_running_loop().time()
        self._found = {one: until for one, until in self._found.items() if until > now}
        self._found[resource, key] = now + FOUND_FOR

    async def _patch(self, owner: Owner, action: Patch) -> Result:
        try:
            written = await self._client.patch(
                action.resource,
                action.key,
                _with_preconditions(action),
                kind=action.kind,
                subresource=action.subresource,
                field_manager=FIELD_MANAGER if action.kind == "apply" else "",
                force=action.kind == "apply",
            )
        except Invalid as error:
            if action.uid and any(one.get("field") == "metadata.uid" for one in error.causes):
                # The server takes another UID for an attempt to change it.
                recreated = f"{action.resource.kind} {action.key} was recreated since it was seen"
                raise Conflict(409, "Conflict", recreated) from error
            raise
        return self._noted(owner, action, written.metadata)

    async def _delete(self, owner: Owner, action: Delete) -> Result:
        try:
            await self._client.delete(
                action.resource,
                action.key,
                uid=action.uid,
                propagation=action.propagation,
                grace_seconds=action.grace_seconds,
            )
        except Conflict:
            # Another object bears the name now, so the one that we meant is gone.
            log.debug("%s %s was replaced before it could be deleted", action.resource, action.key)
        self._freshness.note_delete(owner, action.resource, action.key, action.uid)
        return Result(action, action.key, action.uid)

    def _noted(
        self, owner: Owner, action: Create | Patch, meta: ObjectMeta, *, existed: bool = False
    ) -> Result:
        key = Key(meta.namespace, meta.name)
        self._freshness.note_write(owner, action.resource, key, meta.resource_version, meta.labels)
        return Result(action, key, meta.uid, meta.resource_version, existed=existed)


def _ends(stage: Stage, error: Exception) -> bool:
    """Is it of no use to try the rest of the stage? Independent actions are of several kinds: who may
    not make an Ingress may still make a budget."""
    if stage.independent and isinstance(error, Forbidden):
        return False
    return isinstance(error, _SYSTEMIC)


async def _call(action: Call, perform_call: PerformCall | None) -> Result | Failure:
    if perform_call is None:
        return Failure(action, NotImplementedError(f"nobody performs {action.verb}"))
    try:
        return Result(action, action.key, answer=await perform_call(action))
    except Exception as error:  # noqa: BLE001  whatever Ray or a process does to us is a failure
        return Failure(action, error, unknown=bool(getattr(error, "unknown", False)))


def _controller_uid(manifest: Mapping[str, Any]) -> str | None:
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in owners if one.get("controller")), None)


def _with_secrets(action: Create) -> Mapping[str, Any]:
    """The manifest with its secret keys filled. Drawn here, so that no plan ever holds them."""
    if not action.secret_data:
        return action.manifest
    drawn = {
        name: base64.b64encode(secrets.token_urlsafe(32).encode()).decode()
        for name in action.secret_data
    }
    return {**action.manifest, "data": {**action.manifest.get("data", {}), **drawn}}


def _with_preconditions(action: Patch) -> Any:
    """The patch, refused by the server when the object is not the one that was seen."""
    pairs = (("uid", action.uid), ("resourceVersion", action.resource_version))
    wanted = {name: value for name, value in pairs if value}
    if not wanted:
        return action.patch
    if action.kind == "json":
        tests = [
            {"op": "test", "path": f"/metadata/{name}", "value": value}
            for name, value in wanted.items()
        ]
        return [*tests, *action.patch]
    return {**action.patch, "metadata": {**action.patch.get("metadata", {}), **wanted}}
