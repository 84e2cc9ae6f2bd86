"""Flags as Go's pflag reads them: `--labels a=b,c=d`, `--wait=false`, flags before the command."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from manta.api.durations import DurationError, parse_nanoseconds
from manta.api.quantity import Quantity

_MAX_INT32: Final = 2**31 - 1
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def pairs(text: str) -> dict[str, str]:
    """`a=b,c=d` as a dict; a value with a comma is quoted as in CSV."""
    parts = [text.strip('"')] if text.count("=") == 1 else next(csv.reader([text]), [])
    found = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise argparse.ArgumentTypeError(f"{part!r} must be formatted as key=value")
        found[key] = value
    return found


class MergePairs(argparse.Action):
    """A flag of pairs may be repeated; the pairs are merged."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest) or {}
        setattr(namespace, self.dest, {**before, **values})


def add_pairs(parser: Any, name: str, about: str) -> None:
    parser.add_argument(
        name, type=pairs, action=MergePairs, default={}, metavar="KEY=VALUE,...", help=about
    )


def int32(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = _MAX_INT32 + 1
    if not -_MAX_INT32 - 1 <= number <= _MAX_INT32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 32 bits")
    return number


def count(text: str) -> int:
    """A number of things: an int32 that is not negative."""
    number = int32(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return number


def amount(text: str) -> str:
    """A quantity of a resource, in its canonical form; empty: none."""
    if not text:
        return ""
    try:
        quantity = Quantity.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity, such as 2 or 4Gi") from error
    if quantity < Quantity.parse("0"):
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return str(quantity)


def duration(text: str) -> float:
    """Seconds of a Go duration, such as 5m."""
    try:
        seconds = parse_nanoseconds(text) / 10**9
    except DurationError as error:
        raise argparse.ArgumentTypeError(f"{error}; write it as 90s, 5m or 1h") from error
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return seconds


def one_of(*words: str) -> Callable[[str], str]:
    """One of these words, in any case."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise argparse.ArgumentTypeError(f"{text!r} must be one of {', '.join(words)}")
        return text.lower()

    return read


# ── words ────────────────────────────────────────────────────────────────────────────────


def flags_last(words: Sequence[str], with_value: frozenset[str]) -> list[str]:
    """Move flags that stand before the command behind it: `-n team get cluster`."""
    leading: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        leading.append(rest.pop(0))
        if leading[-1] in with_value and rest:
            leading.append(rest.pop(0))
    return rest + leading


def plain_booleans(words: Iterable[str], switches: frozenset[str]) -> Iterator[str]:
    """Turn `--wait=true` into `--wait` and leave out `--wait=false`. Raises ValueError."""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in switches:
            yield word
        elif value in _TRUE:
            yield name
        elif value not in _FALSE:
            raise ValueError(f"{word}: {value!r} is neither true nor false")


def switches_of(parser: argparse.ArgumentParser) -> frozenset[str]:
    """The flags of a parser that take no value."""
    actions = parser._actions  # noqa: SLF001  # argparse has no other way to list them
    without = (one for one in actions if one.option_strings and one.nargs == 0)
    return frozenset(name for one in without for name in one.option_strings)


def valued_of(parser: argparse.ArgumentParser) -> frozenset[str]:
    """The flags of a parser that take a value."""
    actions = parser._actions  # noqa: SLF001
    return frozenset(name for one in actions if one.nargs != 0 for name in one.option_strings)
