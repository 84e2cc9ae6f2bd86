"""Values of Secrets: read once, read again when they no longer work, and never listed."""

from __future__ import annotations

import base64

import pytest

from manta.api.meta import Key
from manta.api.resources import SECRETS
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, NotFound
from manta.runtime.secret_cache import SecretCache
from support.plane import MemoryPlane
from support.virtual import faulty, virtual_plane, virtually

KEY = Key("default", "demo")


async def put(plane: MemoryPlane, **values: str) -> None:
    data = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    body = {"metadata": {"name": KEY.name}, "data": data}
    try:
        await plane.client.create(SECRETS, KEY.namespace, body)
    except AlreadyExists:
        await plane.client.patch(SECRETS, KEY, {"data": data})


@virtually
async def test_a_value_is_read_once_and_again_when_it_was_forgotten() -> None:
    async with virtual_plane() as plane:
        await put(plane, token="first\n")
        faults = faulty(plane)
        kept = SecretCache(Client(faults), "token")
        assert [await kept.read(KEY), await kept.read(KEY)] == ["first", "first"]
        assert [one.path for one in faults.log] == [SECRETS.path(*KEY)]
        await put(plane, token="second")
        assert await kept.read(KEY) == "first"
        kept.forget(KEY)
        assert await kept.read(KEY) == "second"


@virtually
async def test_what_is_not_there_is_reported_and_looked_for_again() -> None:
    async with virtual_plane() as plane:
        kept = SecretCache(plane.client, "token")
        with pytest.raises(NotFound):
            await kept.read(KEY)
        await put(plane, other="x")
        with pytest.raises(ValueError, match="it has no key token"):
            await kept.read(KEY)
        await put(plane, token="now")
        assert await kept.read(KEY) == "now"
