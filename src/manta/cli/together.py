"""Tasks of one command that live and die together: the first of them that ends, ends the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any


async def until_first_ends(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Raises what ended it. Whatever happens, none of the tasks goes on."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
