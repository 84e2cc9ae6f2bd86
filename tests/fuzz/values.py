"""Odd values, and how a JSON value is changed into one that a careless reader stumbles over."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

TEXTS = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\r\nInjected: yes",
    "../../etc/passwd",
    "/absolute",
    "..",
    "%2e%2e%2f",
    "ünïcode-☃",
    "\u202e",
    "\U0001f600",
    "a" * 64,
    "a" * 254,
    "A" * 5000,
    "9" * 5000,
    "-1",
    "0x10",
    "1e400",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "[" * 2000,
    "^(a+)+$",
    "$(VAR)",
    "${jndi:x}",
    "2020-99-99",
    "2026-01-01T00:00:00Z",
    "1Ki",
    "1e3Gi",
    "-5m",
    "100%",
    "*",
    "system:masters",
    "cluster-admin",
)
NUMBERS = (
    0,
    1,
    -1,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**30,
    0.5,
    -0.0,
    1e308,
)


def odd(rng: Random) -> Any:
    """A value of any JSON type."""
    match rng.randrange(8):
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2 | 3:
            return rng.choice(NUMBERS)
        case 4 | 5:
            return rng.choice(TEXTS)
        case 6:
            return [odd(rng) for _ in range(rng.randrange(3))]
        case _:
            return {rng.choice(TEXTS)[:80]: odd(rng) for _ in range(rng.randrange(3))}


def nested(rng: Random) -> Any:
    """Deep, but not large."""
    value: Any = 1
    for _ in range(rng.choice((20, 90, 120, 900, 3000))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside, the whole included."""
    found = [path]
    if isinstance(value, dict):
        for name, inner in value.items():
            found += places(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            found += places(inner, (*path, number))
    return found


def mutated(rng: Random, value: Any, times: int, *, deep: bool = True) -> Any:
    """A copy in which some places were replaced, removed, doubled or renamed."""
    changed = copy.deepcopy(value)
    for _ in range(times):
        changed = _change(rng, changed, rng.choice(places(changed)))
    if deep and times and rng.random() < 0.02 and isinstance(changed, dict):
        changed[rng.choice(sorted(changed, key=str) or ["a"])] = nested(rng)
    return changed


def _change(rng: Random, value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return odd(rng) if rng.random() < 0.1 else value
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    match rng.randrange(6):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[last]) for _ in range(rng.choice((1, 3, 50))))
        case 1:
            holder[rng.choice(TEXTS)[:80]] = holder[last]
        case 2 if isinstance(holder[last], dict):
            holder[last]["fuzzField"] = odd(rng)
        case _:
            holder[last] = odd(rng)
    return value


def damaged(rng: Random, data: bytes) -> bytes:
    """Bytes with a few of them flipped, cut off or said twice."""
    if not data:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
    place = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
        case 2:
            return data[:place] + data[place : place + 40] * 3 + data[place:]
        case _:
            return (
                data[:place]
                + rng.choice((b"\x00", b"\xff\xfe", b"\xc3\x28", b"{", b'"'))
                + data[place:]
            )
