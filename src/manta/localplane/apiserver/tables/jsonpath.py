"""The JSONPath of printer columns: members, indexes, wildcards and simple filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterable[Any]]

_PART = re.compile(
    r"""\.(?P<member>(?:[A-Za-z0-9_\-/]|\\.)+)
      | \[['"](?P<quoted>[^'"]*)['"]\]
      | \[(?P<index>-?\d+)\]
      | (?:\.|\[)(?P<all>\*)\]?
      | \[\?\((?P<filter>[^)]*)\)\]""",
    re.VERBOSE,
)
_FILTER = re.compile(r"""@(?P<path>[^\s=!<>]*)\s*(?P<op>==|!=)\s*(['"]?)(?P<value>.*?)\3\s*$""")


class BadPathError(ValueError):
    """The path is not one that printer columns may have."""


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """A function that finds every value at the path."""
    steps = list(_steps(path.strip().removeprefix("{").removesuffix("}").removeprefix("$")))

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [below for one in found for below in step(one)]
        return found

    return find


def _steps(path: str) -> Iterator[Step]:
    at = 0
    while at < len(path):
        part = _PART.match(path, at)
        if part is None:
            raise BadPathError(f"cannot read {path!r} at {path[at:]!r}")
        at = part.end()
        if part["member"] is not None:
            yield _member(part["member"].replace("\\.", "."))
        elif part["quoted"] is not None:
            yield _member(part["quoted"])
        elif part["index"] is not None:
            yield _index(int(part["index"]))
        elif part["all"] is not None:
            yield _all
        else:
            yield _filter(part["filter"])


def _member(name: str) -> Step:
    def step(value: Any) -> Iterable[Any]:
        return (value[name],) if isinstance(value, dict) and name in value else ()

    return step


def _index(number: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        within = isinstance(value, list) and -len(value) <= number < len(value)
        return (value[number],) if within else ()

    return step


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _filter(text: str) -> Step:
    parsed = _FILTER.match(text.strip())
    if parsed is None:
        raise BadPathError(f"cannot read the filter {text!r}")
    find = compile_path(parsed["path"])
    wanted, equal = parsed["value"], parsed["op"] == "=="

    def step(value: Any) -> Iterable[Any]:
        items = value if isinstance(value, list) else ()
        return [one for one in items if (_texts(find(one)) == [wanted]) is equal]

    return step


def _texts(values: list[Any]) -> list[str]:
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
