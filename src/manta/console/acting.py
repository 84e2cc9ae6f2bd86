"""Carries out what a person has confirmed, with that person's credentials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.console.pages.actions import RESOURCES, Action, Forecast, operations
from manta.console.snapshot import Item, Snapshot
from manta.kube.client import Client
from manta.kube.errors import ApiError, Conflict

Document = Mapping[str, Any]
Plan = Callable[[Client, str, Key, Document | None], Awaitable[Forecast]]
"""What the operator would do to an object of this kind, or to a manifest of it. Writes nothing."""
Apply = Callable[[Client, Document], Awaitable[str]]
"""Apply a manifest, and say what happened. Raises UsageError."""
Read = Callable[[str], list[dict[str, Any]]]
"""The objects of a YAML text. Raises UsageError."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What the console shares with the commands of `manta`."""

    plan: Plan
    apply: Apply
    read: Read


class Acting:
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
        if action.word == "delete":
            return Forecast(lines=tuple(_deleted(snapshot, one)))
        if action.word == "scale" and "replicas" not in fields:
            return Forecast()
        try:
            patch = operations(one, action, fields)
            wanted = await client.patch(
                RESOURCES[one.kind], one.key, patch, kind="json", dry_run=True, into=dict
            )
        except (ApiError, UsageError) as error:
            return Forecast(problems=(str(error),))
        return await self.commands.plan(client, one.kind, one.key, wanted)

    async def perform(
        self, client: Client, one: Item, action: Action, fields: Mapping[str, str]
    ) -> None:
        """Raises UsageError if another object has the name by now, and the client's errors."""
        if fields.get("uid") != one.uid:
            raise UsageError(f"{one.kind} {one.key} was created anew since; look at it again first")
        resource = RESOURCES[one.kind]
        if action.word != "delete":
            await client.patch(resource, one.key, operations(one, action, fields), kind="json")
            return
        try:
            await client.delete(resource, one.key, uid=one.uid)
        except Conflict as error:
            raise UsageError(f"{one.kind} {one.key} was created anew since: {error}") from error

    async def forecast_text(self, client: Client, text: str) -> tuple[Forecast, ...]:
        """What applying this text would do, for each of its objects."""
        try:
            documents = self.commands.read(text)
        except UsageError as error:
            return (Forecast(problems=(str(error),)),)
        found = []
        for one in documents:
            key = Key(one["metadata"].get("namespace", "default"), one["metadata"]["name"])
            found.append(await self._planned(client, one, key))
        return tuple(found) or (Forecast(problems=("There is no object in this text.",)),)

    async def _planned(self, client: Client, one: Document, key: Key) -> Forecast:
        if one["kind"] not in RESOURCES:
            return Forecast(f"{one['kind']} {key}: applied as it is")
        try:
            return await self.commands.plan(client, str(one["kind"]), key, one)
        except (ApiError, UsageError) as error:
            return Forecast(problems=(f"{one['kind']} {key}: {error}",))

    async def apply_text(self, client: Client, text: str) -> list[str]:
        """What happened to each object. Raises UsageError, and the client's errors."""
        return [await self.commands.apply(client, one) for one in self.commands.read(text)]


def _deleted(snapshot: Snapshot, one: Item) -> list[str]:
    lines = []
    clusters = [one] if one.kind == "RayCluster" else list(snapshot.owned(one, "RayCluster"))
    for kind in ("RayJob", "RayCluster"):
        lines += [f"{kind} {found.key.name} is deleted" for found in snapshot.owned(one, kind)]
    count = sum(len(snapshot.pods_of(found.key)) for found in clusters)
    if count:
        lines.append(f"{count} Pod{'' if count == 1 else 's'} of Ray are stopped and deleted")
    return lines
