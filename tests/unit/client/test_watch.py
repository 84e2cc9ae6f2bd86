"""An object and its changes, over connections that are lost, until it is gone."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS
from manta.client.watch import DeletedError, states
from manta.kube.client import Client
from manta.kube.errors import NotFound, Unreachable
from support.virtual import virtual_plane, virtually

KEY = Key("default", "demo")


async def edit(client: Client, value: str) -> None:
    await client.patch(CONFIG_MAPS, KEY, {"data": {"value": value}})
    await asyncio.sleep(1)


@virtually
async def test_states_survive_a_lost_connection_and_end_with_the_object() -> None:
    async with virtual_plane() as plane:
        client, found = plane.client, list[str]()
        await client.create(CONFIG_MAPS, "default", {"metadata": {"name": KEY.name}})

        async def follow() -> None:
            async for one in states(client, CONFIG_MAPS, KEY):
                found.append((one.get("data") or {}).get("value", ""))

        following = asyncio.create_task(follow())
        await asyncio.sleep(1)
        with patch.object(
            client, "watch", side_effect=Unreachable("the server is restarting", sent=True)
        ):
            plane.app.store.close_watches()
            await edit(client, "while nothing is watched")
            await asyncio.sleep(5)
        await asyncio.sleep(20)
        await edit(client, "afterwards")
        await client.delete(CONFIG_MAPS, KEY)
        with pytest.raises(DeletedError, match="configmap/demo was deleted"):
            await following
    assert list(dict.fromkeys(found)) == ["", "while nothing is watched", "afterwards"]


@virtually
async def test_states_of_an_object_that_never_existed_are_an_error() -> None:
    async with virtual_plane() as plane:
        with pytest.raises(NotFound, match="demo"):
            await anext(states(plane.client, CONFIG_MAPS, KEY))
