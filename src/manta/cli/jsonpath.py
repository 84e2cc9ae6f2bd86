"""kubectl's JSONPath templates: `{range .items[*]}{.metadata.name}{end}`. Pure.

Paths know names, `['name']`, `[0]`, `[-1]`, `[0:2]`, `[*]`, `..name` and `[?(@.kind=="Pod")]`. What is
not there is left out, as kubectl does it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from manta.cli.usage import UsageError

_BLOCK = re.compile(r"\{((?:[^{}\"']|\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])*')*)\}")
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


@dataclass(frozen=True, slots=True)
class _Range:
    """`{range PATH}` with what is repeated for each value."""

    path: tuple[Step, ...]
    body: tuple[_Part, ...]


_Part = str | tuple[Step, ...] | _Range


def render(template: str, document: Any) -> str:
    """The template filled in. UsageError: the template cannot be read."""
    whole = template if "{" in template else f"{{.{template.lstrip('.')}}}"
    pieces = list(_pieces(whole))
    parts = _parse(pieces, template)
    if pieces:
        raise UsageError(f"--output jsonpath: {template!r} has an {{end}} without its {{range}}")
    return "".join(_text(part, document) for part in parts)


# ── reading ──────────────────────────────────────────────────────────────────────────────


def _pieces(template: str) -> Iterator[tuple[str, str]]:
    """Pairs of ("text", text) and ("block", what is between the braces)."""
    at = 0
    for found in _BLOCK.finditer(template):
        if found.start() > at:
            yield "text", template[at : found.start()]
        yield "block", found[1].strip()
        at = found.end()
    rest = template[at:]
    if "{" in rest or "}" in rest:
        raise UsageError(f"--output jsonpath: {template!r} has a brace without its partner")
    if rest:
        yield "text", rest


def _parse(pieces: list[tuple[str, str]], template: str, *, inside: bool = False) -> list[_Part]:
    parts: list[_Part] = []
    while pieces:
        kind, text = pieces[0]
        if kind == "block" and text == "end" and not inside:
            return parts
        pieces.pop(0)
        if kind == "text":
            parts.append(text)
        elif text == "end":
            return parts
        elif text.startswith("range "):
            body = _parse(pieces, template, inside=True)
            parts.append(_Range(_path(text.removeprefix("range ")), tuple(body)))
        elif text[:1] in "\"'" and text:
            parts.append(_unquoted(text))
        else:
            parts.append(_path(text))
    if inside:
        raise UsageError(f"--output jsonpath: {template!r} has a {{range}} without its {{end}}")
    return parts


def _unquoted(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), text[1:-1])


def _path(text: str) -> tuple[Step, ...]:
    text = text.strip().removeprefix("$").removeprefix("@")
    text = text if not text or text[0] in ".[" else f".{text}"
    steps, at = [], 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise UsageError(f"--output jsonpath: cannot read {text[at:]!r} in the path {text!r}")
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
        return lambda value: _member(value, _unquoted(text))
    try:
        numbers = [int(one) if one else None for one in text.split(":")]
    except ValueError:
        raise UsageError(f"--output jsonpath: [{text}] is no index, slice or quoted name") from None
    if len(numbers) == 1:
        return lambda value: _index(value, numbers[0] or 0)
    return lambda value: iter(value[slice(*numbers)] if isinstance(value, list) else ())


def _filter(text: str) -> Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise UsageError(f'--output jsonpath: [{text}] is no filter such as [?(@.kind=="Pod")]')
    path, operator, literal = _path(found["path"]), found["op"], found["value"]

    def holds(value: Any) -> bool:
        values = list(_values(path, value))
        if operator is None:
            return bool(values)
        try:
            return any(_COMPARE[operator](one, _literal(literal)) for one in values)
        except TypeError:
            return False

    return lambda value: (one for one in _all(value) if holds(one))


def _literal(text: str) -> Any:
    if text[:1] in "\"'":
        return _unquoted(text)
    try:
        return json.loads(text)
    except ValueError:
        return text


# ── walking ──────────────────────────────────────────────────────────────────────────────


def _values(path: Sequence[Step], value: Any) -> Iterator[Any]:
    if not path:
        yield value
        return
    for one in path[0](value):
        yield from _values(path[1:], one)


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


def _text(part: _Part, document: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, _Range):
        found = _values(part.path, document)
        return "".join("".join(_text(one, value) for one in part.body) for value in found)
    return " ".join(_scalar(value) for value in _values(part, document))


def _scalar(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, sort_keys=True, separators=(",", ":"))
    )
