"""How a command says that it was given what cannot be meant."""

from __future__ import annotations


class UsageError(Exception):
    """The command cannot be carried out as it was given; the text says what to do instead."""
