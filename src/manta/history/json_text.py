"""JSON that programs of users wrote: what cannot be read is one kind of error, whatever is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

Value = TypeVar("Value")


def read_json(decode: Callable[[bytes], Value], text: bytes) -> Value:
    """What `decode` of msgspec returns. Raises ValueError, also for what is nested too deeply."""
    try:
        return decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
