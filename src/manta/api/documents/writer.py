"""Writes JSON values as block YAML, which `reader` parses to the same values.

A YAML library takes seconds for the CRDs, and quotes by other rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from manta.api.documents.scalars import WORDS

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON does not escape, but YAML does not allow."""
_LITERAL = re.compile(
    r"[^\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]"
    r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]*"
)
"""Text of several lines that can be written with `|`: nothing has to be escaped."""
_WORDS: Final = frozenset(word.lower() for word in WORDS)


def to_yaml(value: Any) -> str:
    """One document; text that YAML would not read as text is quoted."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", inner, indent)
    elif isinstance(value, list) and value:
        for inner in value:
            first, *rest = _lines(inner, indent + "  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
    else:
        yield indent + _scalar(value)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from _lines(value, indent if isinstance(value, list) else indent + "  ")
    elif isinstance(value, str) and "\n" in value and _LITERAL.fullmatch(value):
        yield from _literal(head, value, indent + "  ")
    else:
        yield f"{head} {_scalar(value)}"


def _literal(head: str, text: str, indent: str) -> Iterator[str]:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    yield f"{head} |{'-+'[ends > 1] if ends != 1 else ''}"
    for line in (body if ends <= 1 else text[:-1]).split("\n"):
        yield indent + line if line else ""


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _UNPRINTABLE.sub(_escaped, msgspec.json.encode(value).decode())


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
