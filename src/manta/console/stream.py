"""What changes on a page, as Server-Sent Events: one stream for each tab."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from manta.console.pages.page import Page, Regions
from manta.console.visitors import Visitor
from manta.kube.errors import Unauthorized

PAUSE: Final = 0.1
"""Seconds between two messages: many changes at once become one message."""
RETRY = b"retry: 1000\n\n"
ALIVE = b": \n\n"
Render = Callable[[], Awaitable[Page]]


def digest(regions: Regions) -> str:
    """Tells whether a tab already shows these regions."""
    total = 0
    for name, markup in regions.items():
        text = markup if isinstance(markup, str) else "".join(markup.values())
        total = zlib.crc32(f"{name}{text}".encode(), total)
    return f"{total:08x}"


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


async def page_stream(visitor: Visitor, render: Render, seen: str) -> AsyncIterator[bytes]:
    """Messages until the tab closes. `seen` is the digest of what it shows."""
    yield RETRY
    visitor.streams += 1
    try:
        shown: Regions = {}
        while True:
            version = visitor.watch.version
            try:
                page = await render()
            except Unauthorized:  # the tab asks again, and learns it there
                return
            regions = page.regions()
            if not shown and digest(regions) == seen:
                shown = regions
            if difference := changes(shown, regions):
                yield message(difference)
                shown = regions
            else:
                yield ALIVE
            await visitor.watch.wait_newer(version, page.refresh)
            await asyncio.sleep(PAUSE)
    finally:
        visitor.streams -= 1
        visitor.visit()


def message(content: Mapping[str, Any]) -> bytes:
    """JSON has no line breaks outside of strings, and escapes them inside."""
    return b"data: %b\n\n" % msgspec.json.encode(content, enc_hook=str)
