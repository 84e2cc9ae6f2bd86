"""Parses a user's large text in a thread, so that other reconciles go on meanwhile.

In one thread for all texts: parsing holds the interpreter's lock, so that more threads would only take
more time from the event loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

_THREAD: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parse")


class Parser(Protocol):
    def __call__(self, text: str, /) -> object: ...
    def knows(self, text: str) -> bool: ...


async def parse_ahead(parse: Parser, text: str, large: int) -> None:
    """Parse a text that is longer than `large`, without blocking the event loop.

    The parser caches the result: the caller then calls the parser, as for a short text.
    """
    if len(text) > large and not parse.knows(text):
        await asyncio.get_running_loop().run_in_executor(_THREAD, parse, text)
