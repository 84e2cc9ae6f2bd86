"""What changes on a page, as Server-Sent Events: one stream for each tab."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from manta.api.usage import UsageError
from manta.console.pages.page import REFRESH_SECONDS, Page, Regions
from manta.console.visitors import ClosedError, Visitor
from manta.kube.errors import MantaError, Unauthorized

PAUSE: Final = 0.1
"""Seconds between two messages: many changes at once become one message."""
RETRY = b"retry: 1000\n\n"
ALIVE = b": \n\n"
RELOAD = b"event: reload\ndata:\n\n"
"""The page has other regions now: an object was deleted, or something new is shown."""
TROUBLE_SECONDS: Final = 2.0
"""How soon a tab says that what it shows may be out of date."""
Render = Callable[[], Awaitable[Page]]


def digest(regions: Regions) -> str:
    """Tells whether a tab already shows these regions."""
    total = 0
    for name, markup in regions.items():
        text = markup if isinstance(markup, str) else "".join(markup.values())
        total = zlib.crc32(f"{name}{text}".encode(), total)
    return f"{total:08x}"


def shape(regions: Regions) -> str:
    """Tells whether messages can turn one page into another: not if one has a region more."""
    return f"{zlib.crc32(' '.join(regions).encode()):08x}"


def changes(before: Regions, after: Regions) -> dict[str, Any]:
    """What a tab that shows `before` must change to show `after`. Pure; empty: nothing.

    A changed region is its new markup. A changed table is the order of its rows, if it differs, and the
    markup of the rows that are new or differ.
    """
    found: dict[str, Any] = {}
    for name, markup in after.items():
        held = before.get(name)
        if markup == held:
            continue
        found[name] = markup if isinstance(markup, str) else _rows(held, markup)
    return found


def _rows(held: str | Mapping[str, str] | None, rows: Mapping[str, str]) -> dict[str, Any]:
    known = held if isinstance(held, Mapping) else {}
    changed = {row: text for row, text in rows.items() if known.get(row) != text}
    order = list(rows)
    return {"rows": changed} if order == list(known) else {"rows": changed, "order": order}


async def page_stream(
    visitor: Visitor, render: Render, seen: str, shaped: str = ""
) -> AsyncIterator[bytes]:
    """Messages until the tab closes. `seen` is the digest of what it shows, `shaped` its shape."""
    yield RETRY
    visitor.streams += 1
    try:
        shown: Regions = {}
        last_trouble, refresh = "", REFRESH_SECONDS
        while True:
            version, trouble = visitor.watch.version, visitor.watch.trouble()
            sent = ALIVE
            try:
                page = await render()
            except (Unauthorized, ClosedError):  # the tab comes back, and learns it there
                return
            except (MantaError, UsageError) as error:
                trouble = f"This page cannot be brought up to date: {error}"
            else:
                regions, refresh = page.regions(), page.refresh
                if shaped and shape(regions) != shaped:
                    yield RELOAD
                    return
                if not shown and digest(regions) == seen:
                    shown = regions
                if difference := changes(shown, regions):
                    sent, shown = message(difference), regions
            if trouble != last_trouble:
                yield b"event: trouble\ndata: %b\n\n" % msgspec.json.encode(trouble)
                last_trouble = trouble
            yield sent
            await _something_new(
                visitor, version, TROUBLE_SECONDS if last_trouble else refresh, last_trouble
            )
            await asyncio.sleep(PAUSE)
    finally:
        visitor.streams -= 1
        visitor.visit()


async def while_pending(
    ending: Callable[[], Coroutine[Any, Any, None]], chunks: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """The chunks until `ending` returns. Raises ConnectionResetError then: an end would look like a whole answer."""
    over = asyncio.create_task(ending())
    chunk: asyncio.Future[bytes] | None = None
    try:
        while True:
            chunk = asyncio.ensure_future(anext(chunks))
            await asyncio.wait((chunk, over), return_when=asyncio.FIRST_COMPLETED)
            if over.done():
                over.result()
                raise ConnectionResetError("what this answer is for has ended")
            try:
                yield chunk.result()
            except StopAsyncIteration:
                return
    finally:
        tasks = (over, chunk) if chunk is not None else (over,)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def _something_new(visitor: Visitor, version: int, seconds: float, last_trouble: str) -> None:
    """Return when the objects have changed, when the watches fail or work again, or after so many seconds."""
    while seconds > 0 and visitor.watch.version == version:
        if not last_trouble and visitor.watch.trouble():
            return
        step = min(seconds, TROUBLE_SECONDS)
        await visitor.watch.wait_newer(version, step)
        seconds -= step


def message(content: Mapping[str, Any]) -> bytes:
    """JSON has no line breaks outside of strings, and escapes them inside."""
    return b"data: %b\n\n" % msgspec.json.encode(content, enc_hook=str)
