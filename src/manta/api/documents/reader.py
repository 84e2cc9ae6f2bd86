"""Reads JSON and YAML: manifests, requests, YAML in fields, settings.

Every failure is a DocumentError. Values are JSON values: dict with text keys, list, str, bool, int of
64 bits, finite float, None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from manta.api.documents.composer import Composer
from manta.api.documents.limits import FILE, DocumentError, Limits

_decode = msgspec.json.Decoder().decode
_KEY = re.compile(rb'(?<!\\)"\s*:')
_LONG_INTEGER = re.compile(rb"[0-9]{19}")
_INT64 = 1 << 63


def read_json(text: str | bytes, limits: Limits = FILE) -> Any:
    """The value of a JSON text; of duplicate members the last (see `duplicate_members`). Raises DocumentError."""
    return _read_json(_to_bytes(text, limits), limits)


def read_yaml(
    text: str | bytes, limits: Limits = FILE, *, duplicates: list[str] | None = None
) -> Any:
    """The document of a YAML text; None if there is none. Raises DocumentError.

    `duplicates` collects duplicate keys, of which the last wins; without it they are refused.
    """
    found = [one for one in _documents(text, limits, duplicates) if one is not None]
    if len(found) > 1:
        raise DocumentError(f"{len(found)} documents, separated by `---`: one was expected")
    return found[0] if found else None


def read_documents(text: str | bytes, limits: Limits = FILE) -> list[Any]:
    """Every document of a YAML or JSON text, in order; None for one that is empty."""
    return list(_documents(text, limits, None))


def duplicate_members(body: bytes, value: Any) -> list[str]:
    """Paths of duplicate members of a JSON text.

    The fast decoder silently keeps the last. There is a duplicate only if the text has more keys than the value;
    only then is the text parsed again, slowly.
    """
    if body[:1] != b"{" or len(_KEY.findall(body)) <= _count_keys(value):
        return []
    found: list[str] = []
    _walk_pairs(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return found


def _documents(text: str | bytes, limits: Limits, duplicates: list[str] | None) -> Iterator[Any]:
    """Try JSON first: it is YAML, and a hundred times faster to parse."""
    body = _to_bytes(text, limits)
    if body[:1] in (b"{", b"["):
        try:
            value = _decode(body)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            yield _checked_json(body, value, limits, duplicates)
            return
    yield from _read_yaml(body, limits, duplicates)


def _checked_json(body: bytes, value: Any, limits: Limits, duplicates: list[str] | None) -> Any:
    value = _bounded(body, value, limits)
    twice = duplicate_members(body, value)
    if twice and duplicates is None:
        raise DocumentError(f'key "{twice[0]:.100}" is given twice')
    if duplicates is not None:
        duplicates += [f'key "{one}" already set in map' for one in twice]
    return value


def _read_json(body: bytes, limits: Limits) -> Any:
    try:
        value = _decode(body)
    except RecursionError:
        raise DocumentError(f"nested more than {limits.depth} levels deep") from None
    except msgspec.DecodeError as error:
        raise DocumentError(str(error)) from None
    return _bounded(body, value, limits)


def _read_yaml(body: bytes, limits: Limits, duplicates: list[str] | None) -> Iterator[Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from Composer(limits, duplicates).documents(yaml.parse(body, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise DocumentError(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise DocumentError(" ".join(str(error).split())) from None


def _to_bytes(text: str | bytes, limits: Limits) -> bytes:
    try:
        body = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise DocumentError(f"character {error.start} is half of a surrogate pair") from None
    if len(body) > limits.bytes:
        raise DocumentError(f"{len(body)} bytes: at most {limits.bytes} are read")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            f"line {line}: byte 0x{body[error.start]:02x} at offset {error.start} is not valid UTF-8: "
            "save the text as UTF-8"
        ) from None
    return body.removeprefix(b"\xef\xbb\xbf")


def _bounded(body: bytes, value: Any, limits: Limits) -> Any:
    """The value, unless it is too deep; integers beyond 64 bits become floats, as in Kubernetes."""
    if body.count(b"[") + body.count(b"{") > limits.depth:
        check_depth(value, limits)
    return _narrow(value) if _LONG_INTEGER.search(body) else value


def check_depth(value: Any, limits: Limits) -> None:
    """Raises DocumentError for a value that is nested too deep. Does not recurse."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limits.depth):
        if not level:
            return
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
    if level:
        raise DocumentError(f"nested more than {limits.depth} levels deep")


def _narrow(value: Any) -> Any:
    if type(value) is dict:
        return {key: _narrow(inner) for key, inner in value.items()}
    if type(value) is list:
        return [_narrow(inner) for inner in value]
    if type(value) is int and not -_INT64 <= value < _INT64:
        try:
            return float(value)
        except OverflowError:
            raise DocumentError("a number of more than 308 digits") from None
    return value


class _Pairs(list[tuple[str, Any]]):
    """A JSON object that keeps duplicate members."""


def _walk_pairs(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, below in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                found.append(here)
            seen.add(name)
            _walk_pairs(below, here, found)
    elif isinstance(value, list):
        for number, below in enumerate(value):
            _walk_pairs(below, f"{path}[{number}]", found)


def _count_keys(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            count += len(one)
            waiting += [
                below for below in one.values() if type(below) is dict or type(below) is list
            ]
        elif type(one) is list:
            waiting += [below for below in one if type(below) is dict or type(below) is list]
    return count
