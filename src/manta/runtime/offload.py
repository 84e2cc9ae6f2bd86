"""Work on a large text of a user, in a thread, so that it holds up nobody else's reconcile."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Parser(Protocol):
    def __call__(self, text: str, /) -> object: ...
    def knows(self, text: str) -> bool: ...


async def parse_ahead(parse: Parser, text: str, large: int) -> None:
    """Let the parser remember a text that is longer than `large`, without blocking the event loop.

    Whoever needs the result then asks the parser, as for a short text.
    """
    if len(text) > large and not parse.knows(text):
        await asyncio.to_thread(parse, text)
