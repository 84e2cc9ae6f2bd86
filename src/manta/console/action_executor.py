"""Carries out what a person has confirmed, with that person's credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.api.usage import UsageError
from manta.client.auth_token import token_if_any
from manta.client.dashboard import ProxyTransport
from manta.console.changes import Change, Create, Delete, Patch, Stop, change_of, digest_of
from manta.console.differences import difference
from manta.console.edits import Opened, edit_operations
from manta.console.pages.actions import RESOURCES, Action
from manta.console.pages.forecast import Forecast
from manta.console.snapshot import Item, Snapshot
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from manta.ray.dashboard import Dashboard
from manta.ray.models import Accepted, JobInfo, Target, Unreachable

Document = Mapping[str, Any]
Plan = Callable[[Client, str, Key, Document | None], Awaitable[Forecast]]
"""What the operator would do to an object of this kind, or to a manifest of it. Writes nothing."""
Apply = Callable[[Client, Document], Awaitable[str]]
"""Apply a manifest, and say what happened. Raises UsageError."""
DryApply = Callable[[Client, Document], Awaitable[tuple[Document | None, Document]]]
"""The object as it is, and as the API server would write it. Writes nothing. Raises UsageError."""
Read = Callable[[str], list[dict[str, Any]]]
"""The objects of a YAML text. Raises UsageError."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What the console shares with the commands of `manta`."""

    plan: Plan
    apply: Apply
    dry_apply: DryApply
    read: Read


class ActionExecutor:
    def __init__(self, commands: Commands) -> None:
        self.commands = commands

    async def forecast(
        self,
        client: Client,
        snapshot: Snapshot,
        one: Item,
        action: Action,
        fields: Mapping[str, str],
    ) -> Forecast:
        """A dry run on the server, and the plan of the operator after it."""
        if action.asks_for(fields):
            return Forecast()
        try:
            change = change_of(action.word, one, snapshot, fields)
            found = await self._forecast(client, snapshot, one, change)
        except (ApiError, UsageError) as error:
            return Forecast(problems=(str(error),))
        return replace(found, digest=digest_of(change))

    async def _forecast(
        self, client: Client, snapshot: Snapshot, one: Item, change: Change
    ) -> Forecast:
        match change:
            case Delete():
                await _delete(client, RESOURCES[one.kind], one, dry_run=True)
                return Forecast(lines=tuple(_deleted(snapshot, one)))
            case Stop():
                words = f"Ray job {change.submission} is stopped, and the RayJob is Complete"
                return Forecast(lines=(words, *await _reached(client, change)))
            case Create():
                return await self._forecast_new(client, one, change)
            case Patch():
                return await self._forecast_patch(client, one, change)

    async def _forecast_new(self, client: Client, one: Item, change: Create) -> Forecast:
        resource, key = RESOURCES[one.kind], change.key
        await client.create(resource, key.namespace, change.document, dry_run=True)
        return await self._plan(client, one.kind, key, change.document)

    async def _forecast_patch(self, client: Client, one: Item, change: Patch) -> Forecast:
        wanted = await client.patch(
            RESOURCES[one.kind], one.key, change.operations, kind="json", dry_run=True, into=dict
        )
        found = await self._plan(client, one.kind, one.key, wanted)
        before, after = ({"spec": spec} for spec in (one.object.spec, wanted["spec"]))
        return replace(found, changes=difference(before, after))

    async def _plan(self, client: Client, kind: str, key: Key, manifest: Document) -> Forecast:
        """Planners read Pods and more. Who may change the object and not see those may change it nevertheless."""
        try:
            return await self.commands.plan(client, kind, key, manifest)
        except Forbidden as error:
            return Forecast(f"not known, as you may not see what it depends on: {error}")

    async def perform(
        self,
        client: Client,
        snapshot: Snapshot,
        one: Item,
        action: Action,
        fields: Mapping[str, str],
    ) -> Key:
        """The object to look at next. Raises UsageError if another object has the name by now, or if something else
        than what was shown would be sent, and the client's errors."""
        if fields.get("uid") != one.uid:
            raise UsageError(f"{one.kind} {one.key} was re-created since; review it first")
        resource = RESOURCES[one.kind]
        change = change_of(action.word, one, snapshot, fields)
        if (shown := fields.get("change")) and shown != digest_of(change):
            raise UsageError(f"{one.kind} {one.key} has changed since; review it first")
        match change:
            case Patch(operations):
                await client.patch(resource, one.key, operations, kind="json")
            case Create() as new:
                return await _create(client, resource, new)
            case Delete():
                await _delete(client, resource, one)
            case Stop() as job:
                await _stop(client, job)
        return one.key

    # ── the text of the page Plan ────────────────────────────────────────────────────────

    async def forecast_text(
        self, client: Client, text: str, opened: Opened | None = None
    ) -> tuple[Forecast, ...]:
        """What applying this text would do, for each of its objects. `opened`: the one that was opened to edit it."""
        try:
            documents = await asyncio.to_thread(self.commands.read, text)  # it may take a second
        except UsageError as error:
            return (Forecast(problems=(str(error),)),)
        found = [await self._planned(client, one, opened) for one in documents]
        return tuple(found) or (Forecast(problems=("There is no object in this text.",)),)

    async def _planned(self, client: Client, one: Document, opened: Opened | None) -> Forecast:
        """First what the operator finds wrong, which names the fields; then what the API server would write, and
        what the operator would do with that: an apply leaves fields that others wrote."""
        kind, key = str(one["kind"]), _key_of(one)
        found = Forecast()
        before: Document | None
        try:
            if kind in RESOURCES:
                found = await self._plan(client, kind, key, one)
            if found.problems:
                return found
            if opened is not None and opened.is_of(one):
                before, after = await _edited(client, one, opened, dry_run=True)
            else:
                before, after = await self.commands.dry_apply(client, one)
            if kind not in RESOURCES:
                found = Forecast(f"{kind} {_name_of(after)}: applied as it is")
            elif before is not None and after.get("spec") != one.get("spec"):
                found = await self._plan(client, kind, key, after)
        except (ApiError, UsageError) as error:
            return Forecast(problems=(f"{kind} {key}: {error}",))
        changes = difference(before, after) or ("@@ nothing changes @@",)
        return replace(found, changes=changes)

    async def apply_text(
        self, client: Client, text: str, opened: Opened | None = None
    ) -> tuple[tuple[str, Key], ...]:
        """The kinds and keys of its objects. Raises UsageError, which names those that are written already, and the
        client's errors."""
        done: list[tuple[str, Key]] = []
        for one in await asyncio.to_thread(self.commands.read, text):
            kind, key = str(one["kind"]), _key_of(one)
            try:
                if opened is not None and opened.is_of(one):
                    await _edited(client, one, opened, dry_run=False)
                else:
                    await self.commands.apply(client, one)
            except (ApiError, UsageError) as error:
                if not done:
                    raise
                written = ", ".join(f"{kind} {key}" for kind, key in done)
                raise UsageError(f"{kind} {key}: {error} (written before it: {written})") from error
            done.append((kind, key))
        return tuple(done)


def _key_of(document: Document) -> Key:
    meta = document["metadata"]
    return Key(meta.get("namespace", "default"), meta["name"])


def _name_of(document: Document) -> str:
    meta = document["metadata"]
    return (
        str(Key(meta.get("namespace", ""), meta["name"])) if "namespace" in meta else meta["name"]
    )


async def _edited(
    client: Client, wanted: Document, opened: Opened, *, dry_run: bool
) -> tuple[Document, Document]:
    """The object before and after an edit. Raises UsageError if it is another one now, and the client's errors."""
    resource = RESOURCES[opened.kind]
    try:
        live = await client.get(resource, opened.key)
    except NotFound as error:
        raise UsageError("it was deleted since you opened it") from error
    operations = edit_operations(opened, live, wanted)
    written = await client.patch(
        resource,
        opened.key,
        operations,
        kind="json",
        dry_run=dry_run,
        field_validation="Strict",
        into=dict,
    )
    return live, written


async def _create(client: Client, resource: Resource, new: Create) -> Key:
    """The name was shown before: a form that is sent twice makes one object."""
    try:
        await client.create(resource, new.key.namespace, new.document)
    except AlreadyExists as error:
        raise UsageError(f"{resource.kind} {new.key} exists already: open it") from error
    return new.key


async def _reached(client: Client, job: Stop) -> tuple[str, ...]:
    """What Ray says of the job now, instead of a dry run. Raises UsageError if it does not answer."""
    found = await Dashboard(ProxyTransport(client)).job(await _target(client, job), job.submission)
    match found:
        case JobInfo():
            return (f"Ray says that it is {found.status}",)
        case Unreachable():
            raise UsageError(f"Ray's dashboard cannot be reached: {found.why}")
        case _:
            raise UsageError(f"Ray does not know the job {job.submission}")


async def _stop(client: Client, job: Stop) -> None:
    """Sent once: nothing is sent again after a lost reply."""
    answer = await Dashboard(ProxyTransport(client)).stop(
        await _target(client, job), job.submission
    )
    if not isinstance(answer, Accepted):
        raise UsageError(f"Ray did not confirm that it stops the job: {answer.why}")


async def _target(client: Client, job: Stop) -> Target:
    token = await token_if_any(client, job.cluster)
    return Target(job.cluster.namespace, job.service, host="", token=token)


async def _delete(client: Client, resource: Resource, one: Item, *, dry_run: bool = False) -> None:
    """One that is gone already is deleted. Raises UsageError if it is another one now."""
    try:
        await client.delete(resource, one.key, uid=one.uid, dry_run=dry_run)
    except Conflict as error:
        raise UsageError(f"{one.kind} {one.key} was re-created since: {error}") from error


def _deleted(snapshot: Snapshot, one: Item) -> list[str]:
    lines = []
    clusters = [one] if one.kind == "RayCluster" else list(snapshot.owned(one, "RayCluster"))
    for kind in ("RayJob", "RayCluster"):
        lines += [f"{kind} {found.key.name} is deleted" for found in snapshot.owned(one, kind)]
    count = sum(len(snapshot.pods_of(found.key)) for found in clusters)
    if count:
        lines.append(f"{count} Pod{'' if count == 1 else 's'} of Ray are stopped and deleted")
    return lines
