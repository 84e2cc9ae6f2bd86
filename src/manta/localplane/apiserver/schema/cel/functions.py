"""The functions and methods that rules may call."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from manta.api.durations import DurationError, parse_duration
from manta.localplane.apiserver.schema.cel import amounts, dates, network, text_format
from manta.localplane.apiserver.schema.cel.errors import NO_OVERLOAD, EvaluationError
from manta.localplane.apiserver.schema.cel.values import (
    BINARY,
    Maybe,
    as_list,
    equal,
    is_number,
    type_name,
)
from manta.localplane.apiserver.schema.regex import BadPatternError, Pattern, compile_pattern

Function = Callable[..., Any]

MAX_CHARACTERS = 4 * 1024 * 1024
"""The longest string that a function returns; longer than any object."""


def _size(value: Any) -> int:
    if isinstance(value, str | list | dict | bytes):
        return len(value)
    raise EvaluationError(NO_OVERLOAD)


def _int(value: Any) -> int:
    if isinstance(value, datetime):
        return int(value.timestamp())
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise EvaluationError(f"type conversion error from {type_name(value)} to int") from None


def _double(value: Any) -> float:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    try:
        return float(value)
    except ValueError:
        raise EvaluationError(f"type conversion error from {type_name(value)} to double") from None


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if is_number(value):
        return str(value)
    if isinstance(value, timedelta):
        return f"{_string(value.total_seconds())}s"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return _decoded(value)
    if type_name(value) in {"net.IP", "net.CIDR"}:
        return str(value)
    raise EvaluationError(NO_OVERLOAD)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        message = "invalid UTF-8 in bytes, cannot convert to string"
        raise EvaluationError(message) from None


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else _text(value).encode()


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in {"true", "True", "TRUE", "t", "1"}:
        return True
    if value in {"false", "False", "FALSE", "f", "0"}:
        return False
    raise EvaluationError("type conversion error to bool")


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    text = _text(value)
    try:
        return parse_duration(text)
    except DurationError:
        raise EvaluationError(f"type conversion error: invalid duration {text!r}") from None


def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(_text(value))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise EvaluationError("type conversion error: invalid timestamp")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(NO_OVERLOAD)
    return value


def _of_text(function: Callable[..., Any]) -> Function:
    """Return a method that only strings have."""

    def call(target: Any, *args: Any) -> Any:
        try:
            return function(_text(target), *args)
        except TypeError:
            raise EvaluationError(NO_OVERLOAD) from None

    return call


def _compiled(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except BadPatternError as error:
        raise EvaluationError(str(error)) from None


def _matches(text: str, pattern: str) -> bool:
    return _compiled(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [found[0] for found in _compiled(pattern).finditer(text)]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise EvaluationError("index out of range")
    return text[start:stop]


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        count = len(text) if limit < 0 else min(limit, len(text)) - 1
        return [*text[:count], *([text[count:]] if text[count:] else [])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old) if limit < 0 else min(limit, text.count(old))
    _check_size(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, limit)


def _lower_ascii(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _upper_ascii(text: str) -> str:
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


def _join(items: Any, separator: str = "") -> str:
    texts = [_text(item) for item in as_list(items)]
    _check_size(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _check_size(characters: int) -> None:
    """Raises EvaluationError: a small value must not become one of gigabytes."""
    if characters > MAX_CHARACTERS:
        raise EvaluationError(
            f"the result has {characters} characters; at most {MAX_CHARACTERS} are made"
        )


def _least(items: Any, symbol: str) -> Any:
    best, *rest = as_list(items) or [None]
    if best is None:
        raise EvaluationError("min or max called on empty list")
    for item in rest:
        if BINARY[symbol](item, best):
            best = item
    return best


def _sum(items: Any) -> Any:
    total: Any = 0
    for index, item in enumerate(as_list(items)):
        total = item if index == 0 else BINARY["+"](total, item)
    return total


def _is_sorted(items: Any) -> bool:
    found = as_list(items)
    return all(BINARY["<="](left, right) for left, right in pairwise(found))


def _index_of(target: Any, item: Any, start: int = 0) -> int:
    if isinstance(target, str):
        return target.find(_text(item), _offset(target, start))
    return next((at for at, member in enumerate(as_list(target)) if equal(member, item)), -1)


def _offset(text: str, at: Any) -> int:
    if type(at) is not int or not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return at


def _last_index_of(target: Any, item: Any, last: int | None = None) -> int:
    if isinstance(target, str):
        wanted = _text(item)
        end = len(target) if last is None else _offset(target, last) + len(wanted)
        return target.rfind(wanted, 0, end)
    found = [at for at, member in enumerate(as_list(target)) if equal(member, item)]
    return found[-1] if found else -1


def _maybe(value: Any) -> Maybe:
    if not isinstance(value, Maybe):
        raise EvaluationError(NO_OVERLOAD)
    return value


def _value_of(value: Any) -> Any:
    if not _maybe(value).present:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _or(value: Any, other: Any) -> Maybe:
    return _maybe(value) if _maybe(value).present else _maybe(other)


def _of_non_zero(value: Any) -> Maybe:
    zero = value is None or value in (0, "", b"", [], {}) or value == timedelta()
    return Maybe(None if zero else value, not zero)


# (name, number of arguments) -> function
GLOBALS: dict[tuple[str, int], Function] = {
    ("size", 1): _size,
    ("int", 1): _int,
    ("uint", 1): _int,
    ("double", 1): _double,
    ("string", 1): _string,
    ("bool", 1): _bool,
    ("duration", 1): _duration,
    ("timestamp", 1): _timestamp,
    ("type", 1): type_name,
    ("dyn", 1): lambda value: value,
    ("matches", 2): _of_text(_matches),
    ("bytes", 1): _bytes,
    ("optional.of", 1): lambda value: Maybe(value, present=True),
    ("optional.none", 0): lambda: Maybe(None, present=False),
    ("optional.ofNonZeroValue", 1): _of_non_zero,
    ("strings.quote", 1): lambda text: json.dumps(_text(text), ensure_ascii=False),
    **amounts.GLOBALS,
    **network.GLOBALS,
    **text_format.GLOBALS,
}

METHODS: dict[tuple[str, int], Function] = {
    ("size", 0): _size,
    ("startsWith", 1): _of_text(str.startswith),
    ("endsWith", 1): _of_text(str.endswith),
    ("contains", 1): _of_text(str.__contains__),
    ("matches", 1): _of_text(_matches),
    ("find", 1): _of_text(_find),
    ("findAll", 1): _of_text(_find_all),
    ("lowerAscii", 0): _of_text(_lower_ascii),
    ("upperAscii", 0): _of_text(_upper_ascii),
    ("trim", 0): _of_text(str.strip),
    ("replace", 2): _of_text(_replace),
    ("replace", 3): _of_text(_replace),
    ("split", 1): _of_text(_split),
    ("split", 2): _of_text(_split),
    ("substring", 1): _of_text(_substring),
    ("substring", 2): _of_text(_substring),
    ("charAt", 1): _of_text(_char_at),
    ("join", 0): _join,
    ("join", 1): _join,
    ("indexOf", 1): _index_of,
    ("indexOf", 2): _of_text(_index_of),
    ("lastIndexOf", 1): _last_index_of,
    ("lastIndexOf", 2): _of_text(_last_index_of),
    ("isSorted", 0): _is_sorted,
    ("sum", 0): _sum,
    ("min", 0): lambda items: _least(items, "<"),
    ("max", 0): lambda items: _least(items, ">"),
    ("hasValue", 0): lambda value: _maybe(value).present,
    ("value", 0): _value_of,
    ("orValue", 1): lambda value, other: value.value if _maybe(value).present else other,
    ("or", 1): _or,
    **amounts.METHODS,
    **dates.METHODS,
    **network.METHODS,
    **text_format.METHODS,
}
