"""Executes a plan: stage by stage, the actions of a stage concurrently.

A later stage runs only if the earlier ones succeeded or are independent. Concurrency starts at one and
grows with every success; a large plan yields to small ones (`concurrency.py`). Every write is noted
with freshness. A lost reply is a failure marked `unknown`: the object is read before the key runs
again.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, assert_never

from manta.api.meta import Key, Object, ObjectMeta
from manta.api.resources import Resource
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
from manta.reconcile.actions import Action, Call, Create, Delete, OnExists, Patch
from manta.reconcile.concurrency import LARGE, ConcurrencyLimit, LargePlanThrottle
from manta.reconcile.failure_log import FailureLog
from manta.reconcile.outcome import UNTRIED, Failure, Outcome, Result
from manta.reconcile.plan import Plan, Stage
from manta.runtime.freshness import Freshness, Owner
from manta.runtime.gate import WritesStopped

ExecuteCall = Callable[[Call], Awaitable[Mapping[str, Any]]]
"""How a controller executes an action that is not a Kubernetes write."""

FIELD_MANAGER = "manta"

# Errors that the next action would get too: the rest of the stage is skipped.
_SYSTEMIC = (Unreachable, Unavailable, TooManyRequests, Forbidden, Unauthorized, WritesStopped)

RECREATED_SECONDS = 10.0
"""An object that is created again so soon was deleted by somebody: perhaps its owner is gone."""
REMEMBER_SECONDS: Final = 60.0
"""How long an object that no cache shows is assumed to exist still."""

log = logging.getLogger(__name__)


class OwnedByAnotherError(MantaError):
    """The name is taken by an object of another owner, which is neither used nor changed."""


class BeingDeletedError(MantaError):
    """The name is taken by an object that is being deleted."""


class _StageExecutor:
    """Runs the actions of one stage, as many at once as the limit allows."""

    def __init__(
        self,
        stage: Stage,
        limit: ConcurrencyLimit,
        execute: Callable[[Action], Awaitable[Result | Failure]],
    ) -> None:
        self._stage = stage
        self._limit = limit
        self._execute = execute
        self._running = 0
        self._freed = asyncio.Event()
        self.results: dict[int, Result | Failure] = {}
        self.gave_up = False
        """An action failed with an error that the next one would get too."""

    async def acquire(self) -> None:
        """Wait until one more action may run."""
        while self._running >= self._limit.limit and not self.gave_up:
            self._freed.clear()
            await self._freed.wait()
        self._running += 1

    async def run(self, number: int, action: Action) -> None:
        """Execute one action, after `acquire`."""
        clock = asyncio.get_running_loop().time
        began = clock()
        result = self.results[number] = await self._execute(action)
        self._running -= 1
        if isinstance(result, Result):
            self._limit.succeeded(clock() - began)
        elif result.matters and _is_systemic(self._stage, result.error):
            self.gave_up = True
        self._freed.set()


class PlanExecutor:
    def __init__(self, client: Client, freshness: Freshness) -> None:
        self._client = client
        self._freshness = freshness
        self._throttle = LargePlanThrottle()
        self._failure_log = FailureLog()
        self._known: dict[tuple[Resource, Key], float] = {}
        """Objects of users that no cache shows, and until when they are assumed to exist."""
        self._created: dict[tuple[Resource, Key], float] = {}
        """When we last created each object with a name of its own, for a short time."""

    async def execute(
        self, owner: Owner, plan: Plan, execute_call: ExecuteCall | None = None
    ) -> Outcome:
        """Execute the plan of one key. Errors of the API server and of Ray are in the outcome."""
        if not plan.stages:
            return UNTRIED
        limit = ConcurrencyLimit(is_large=len(plan.actions) > LARGE)
        if limit.is_large:
            return await self._stages(owner, plan, limit, execute_call)
        creates = any(isinstance(one, Create) for one in plan.actions)
        with self._throttle.small_plan(lingers=creates):
            return await self._stages(owner, plan, limit, execute_call)

    async def _stages(
        self, owner: Owner, plan: Plan, limit: ConcurrencyLimit, execute_call: ExecuteCall | None
    ) -> Outcome:
        done: list[Result] = []
        failures: list[Failure] = []
        skipped: list[Action] = []
        stopped = False
        for stage in plan.stages:
            if stopped:
                skipped += stage.actions
                continue
            results, left = await self._stage(owner, stage, limit, execute_call)
            skipped += left
            failed = [one for one in results if isinstance(one, Failure)]
            done += [one for one in results if isinstance(one, Result)]
            failures += failed
            for one in failed:
                self._failure_log.add(owner, one)
            stopped = any(one.matters for one in failed) and not stage.independent
        return Outcome(tuple(done), tuple(failures), tuple(skipped))

    async def _stage(
        self, owner: Owner, stage: Stage, limit: ConcurrencyLimit, execute_call: ExecuteCall | None
    ) -> tuple[list[Result | Failure], tuple[Action, ...]]:
        """The results of the actions that were tried, and the actions that were not."""
        limit.begin_stage()
        executor = _StageExecutor(
            stage, limit, lambda action: self._one(owner, action, execute_call)
        )
        try:
            await self._start(executor, stage.actions, limit)
        except ExceptionGroup as bugs:
            raise bugs.exceptions[0] from bugs  # a task group hides the message of the error
        results = [executor.results[number] for number in sorted(executor.results)]
        if any(isinstance(one, Failure) for one in results):
            limit.failed()
        return results, stage.actions[len(results) :]

    async def _start(
        self, executor: _StageExecutor, actions: tuple[Action, ...], limit: ConcurrencyLimit
    ) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, action in enumerate(actions):
                await executor.acquire()
                await self._throttle.yield_to_small(limit)
                if executor.gave_up:
                    return
                if len(actions) == 1:
                    await executor.run(number, action)
                else:
                    tasks.create_task(executor.run(number, action))

    async def _one(
        self, owner: Owner, action: Action, execute_call: ExecuteCall | None
    ) -> Result | Failure:
        log.debug("%s %s: %s", type(action).__name__, action.key, action.why or action.cause)
        if isinstance(action, Call):
            return await _call(action, execute_call)
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
        if self._known.get((action.resource, action.key), now) > now:
            return Result(action, action.key, existed=True)
        body = _with_secrets(action)
        try:
            written = await self._client.create(action.resource, action.key.namespace, body)
        except AlreadyExists:
            if action.on_exists is OnExists.FAIL or "name" not in action.manifest["metadata"]:
                raise
            return await self._existing(owner, action)
        self._refresh_owner(owner, action)
        return self._noted(owner, action, written.metadata)

    def _refresh_owner(self, owner: Owner, action: Create) -> None:
        """Read the owner live if what we created moments ago had to be created again.

        The garbage collector deletes the objects of an owner that is gone. If the event that it is gone comes
        late, we would create them again and again.
        """
        if "name" not in action.manifest["metadata"]:
            return
        now = asyncio.get_running_loop().time()
        while self._created and now - next(iter(self._created.values())) > RECREATED_SECONDS:
            del self._created[next(iter(self._created))]
        again = self._created.pop((action.resource, action.key), None) is not None
        self._created[action.resource, action.key] = now  # the latest is the last
        controller = _controller(action.manifest)
        if again and controller is not None:
            key = Key(action.key.namespace, controller["name"])
            self._freshness.note_stale(owner, controller["apiVersion"], controller["kind"], key)

    async def _existing(self, owner: Owner, action: Create) -> Result:
        """Adopt or use the object that has the name. Raises if it belongs to another owner."""
        found = (await self._client.get(action.resource, action.key, into=Object)).metadata
        controller = found.controller
        is_ours = (controller.uid if controller else None) == _controller_uid(action.manifest)
        if not is_ours and (controller or action.on_exists is not OnExists.USE):
            whose = (
                f"belongs to {controller.kind} {controller.name}" if controller else "has no owner"
            )
            raise OwnedByAnotherError(
                f"{action.resource.kind} {action.key} already exists and {whose}"
            )
        if found.deletion_timestamp is not None:
            raise BeingDeletedError(f"{action.resource.kind} {action.key} is still being deleted")
        if action.cached_by_label and is_ours:
            found = await self._relabelled(action, found)
        elif action.cached_by_label:
            self._remember(action.resource, action.key)
        return self._noted(owner, action, found, existed=True)

    async def _relabelled(self, action: Create, found: ObjectMeta) -> ObjectMeta:
        """Restore lost labels, so that the cache shows the object. The planners correct the rest."""
        wanted: Mapping[str, str] = action.manifest["metadata"].get("labels") or {}
        lost = {name: value for name, value in wanted.items() if found.labels.get(name) != value}
        if not lost:
            return found
        patch = {"metadata": {"uid": found.uid, "labels": lost}}
        return (await self._client.patch(action.resource, action.key, patch)).metadata

    def _remember(self, resource: Resource, key: Key) -> None:
        now = asyncio.get_running_loop().time()
        self._known = {one: until for one, until in self._known.items() if until > now}
        self._known[resource, key] = now + REMEMBER_SECONDS

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
                # The API server reads another UID in a patch as an attempt to change it.
                recreated = f"{action.resource.kind} {action.key} was re-created meanwhile"
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
            # Another object has the name now, so the one to delete is gone.
            log.debug("%s %s was replaced before it could be deleted", action.resource, action.key)
        self._freshness.note_delete(owner, action.resource, action.key, action.uid)
        return Result(action, action.key, action.uid)

    def _noted(
        self, owner: Owner, action: Create | Patch, meta: ObjectMeta, *, existed: bool = False
    ) -> Result:
        key = Key(meta.namespace, meta.name)
        self._freshness.note_write(owner, action.resource, key, meta.resource_version, meta.labels)
        return Result(action, key, meta.uid, meta.resource_version, existed=existed)


def _is_systemic(stage: Stage, error: Exception) -> bool:
    """Whether the rest of the stage would fail too. Independent actions are of several kinds: a role
    that forbids Ingresses may still allow PodDisruptionBudgets."""
    if stage.independent and isinstance(error, Forbidden):
        return False
    return isinstance(error, _SYSTEMIC)


async def _call(action: Call, execute_call: ExecuteCall | None) -> Result | Failure:
    if execute_call is None:
        return Failure(action, NotImplementedError(f"this controller cannot execute {action.verb}"))
    try:
        return Result(action, action.key, answer=await execute_call(action))
    except Exception as error:  # noqa: BLE001  any error of Ray is a failure
        return Failure(action, error, unknown=bool(getattr(error, "unknown", False)))


def _controller(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)


def _controller_uid(manifest: Mapping[str, Any]) -> str | None:
    controller = _controller(manifest)
    return controller["uid"] if controller else None


def _with_secrets(action: Create) -> Mapping[str, Any]:
    """The manifest with random secrets. They are generated here, so that no plan holds them."""
    if not action.secret_data:
        return action.manifest
    drawn = {
        name: base64.b64encode(secrets.token_urlsafe(32).encode()).decode()
        for name in action.secret_data
    }
    return {**action.manifest, "data": {**action.manifest.get("data", {}), **drawn}}


def _with_preconditions(action: Patch) -> Any:
    """The patch with the conditions under which the API server accepts it."""
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
