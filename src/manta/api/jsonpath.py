"""JSONPath as in Kubernetes, for printer columns of CRDs and for `kubectl get -o jsonpath`. Pure.

Paths may have names, `['name']`, `[0]`, `[-1]`, `[0:2]`, `[*]`, `..name` and `[?(@.kind=="Pod")]`.
Missing fields give no values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""
    (?P<deep>\.\.)(?P<deep_name>[^.\[\]\s]+)
    | \.?\[(?P<inside>(?:[^\[\]"']|"(?:\\.|[^"])*"|'(?:\\.|[^'])*'|\[[^\]]*\])*)\]
    | \.(?P<name>(?:\\.|[^.\[\]\s])+)
    | (?P<dot>\.)$
    """,
    re.VERBOSE,
)
_FILTER = re.compile(
    r"\?\(\s*@(?P<path>[^=!<>\s]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*\)"
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    ">": lambda a, b: bool(a > b),
    "<=": lambda a, b: bool(a <= b),
    ">=": lambda a, b: bool(a >= b),
}

Step = Callable[[Any], Iterator[Any]]
Path = tuple[Step, ...]


class BadPathError(ValueError):
    """The path is not valid; the message says which part."""


def unquoted(text: str) -> str:
    """A quoted string without quotes and escapes."""
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), text[1:-1])


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Path:
    """The steps of a path. Raises BadPathError."""
    text = text.strip().removeprefix("$").removeprefix("@")
    text = text if not text or text[0] in ".[" else f".{text}"
    steps, at = [], 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise BadPathError(f"cannot read {text[at:]!r} in the path {text!r}")
        at = found.end()
        if not found["dot"]:
            steps.append(_step(found))
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["deep"]:
        return lambda value: _deep(value, found["deep_name"])
    if found["name"]:
        name = re.sub(r"\\(.)", r"\1", found["name"])
        return _all if name == "*" else lambda value: _member(value, name)
    inside = found["inside"].strip()
    if inside == "*":
        return _all
    if inside.startswith("?"):
        return _filter(inside)
    chosen = [_selector(one.strip()) for one in inside.split(",")]
    return lambda value: (one for select in chosen for one in select(value))


def _selector(text: str) -> Step:
    if text[:1] in "\"'" and text:
        return lambda value: _member(value, unquoted(text))
    try:
        numbers = [int(one) if one else None for one in text.split(":")]
    except ValueError:
        raise BadPathError(f"[{text}] is not an index, a slice or a quoted name") from None
    if len(numbers) == 1:
        return lambda value: _index(value, numbers[0] or 0)
    return lambda value: iter(value[slice(*numbers)] if isinstance(value, list) else ())


def _filter(text: str) -> Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise BadPathError(f'[{text}] is not a filter such as [?(@.kind=="Pod")]')
    path, operator, literal = compile_path(found["path"]), found["op"], found["value"]

    def holds(value: Any) -> bool:
        found = list(values(path, value))
        if operator is None:
            return bool(found)
        try:
            return any(_COMPARE[operator](one, _literal(literal)) for one in found)
        except TypeError:
            return False

    return lambda value: (one for one in _all(value) if holds(one))


def _literal(text: str) -> Any:
    if text[:1] in "\"'":
        return unquoted(text)
    try:
        return json.loads(text)
    except ValueError:
        return text


def values(path: Sequence[Step], value: Any) -> Iterator[Any]:
    """Every value at the path."""
    if not path:
        yield value
        return
    for one in path[0](value):
        yield from values(path[1:], one)


def _member(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _index(value: Any, number: int) -> Iterator[Any]:
    if isinstance(value, list) and -len(value) <= number < len(value):
        yield value[number]


def _deep(value: Any, name: str) -> Iterator[Any]:
    yield from _member(value, name)
    for inner in _all(value):
        yield from _deep(inner, name)
