"""The end of one task is the end of all."""

from __future__ import annotations

import asyncio
import sys

import pytest

from manta.runtime.process import loop_factory, until_first_ends


async def test_the_first_that_ends_ends_the_rest() -> None:
    ended = asyncio.Event()
    rest = asyncio.create_task(asyncio.Event().wait())
    first = asyncio.create_task(ended.wait())
    together = asyncio.create_task(until_first_ends([rest, first]))
    await asyncio.sleep(0)
    assert not together.done()
    ended.set()
    await together
    assert rest.cancelled()


async def test_what_ended_it_is_raised_and_nothing_goes_on() -> None:
    async def broken() -> None:
        raise OSError("the port is taken")

    rest = asyncio.create_task(asyncio.Event().wait())
    with pytest.raises(OSError, match="the port is taken"):
        await until_first_ends([rest, asyncio.create_task(broken())])
    assert rest.cancelled()


async def test_who_is_cancelled_takes_all_along() -> None:
    rest = asyncio.create_task(asyncio.Event().wait())
    together = asyncio.create_task(until_first_ends([rest]))
    await asyncio.sleep(0)
    together.cancel()
    with pytest.raises(asyncio.CancelledError):
        await together
    assert rest.cancelled()


def test_uvloop_runs_the_process_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")
    factory = loop_factory()
    assert factory is not None
    loop = factory()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


def test_without_uvloop_the_default_loop_runs_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is None
