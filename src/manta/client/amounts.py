"""Amounts of CPU and memory that users write. Pure."""

from __future__ import annotations

import re
from typing import Final

from manta.api.quantity import Quantity, QuantityError
from manta.api.text import bytes_text

MIN_MEMORY: Final = 256 * 2**20
"""Bytes. Ray needs more for itself: a smaller number lacks its unit."""


class AmountError(ValueError):
    """The amount cannot be used; the text says why and what to write."""


def check_cpu(text: str) -> None:
    """Raises AmountError unless this is a positive number of CPUs."""
    if _quantity(text, "2 or 500m").nano <= 0:
        raise AmountError("must be more than 0")


def check_memory(text: str) -> None:
    """Raises AmountError unless this is enough memory for Ray."""
    memory = _quantity(text, "2Gi").value()
    if memory < MIN_MEMORY:
        raise AmountError(
            f"this is {bytes_text(memory)}, but Ray needs at least {bytes_text(MIN_MEMORY)}; write "
            "the amount with its unit, such as 2Gi"
        )


def _quantity(text: str, example: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError:
        written = re.fullmatch(r"([\d.]+) ?([kmgtKMGT])i?[bB]?", text)
        near = f"; did you mean {written[1]}{written[2].upper()}i?" if written else ""
        raise AmountError(f"not a Kubernetes quantity; write it as {example}{near}") from None
