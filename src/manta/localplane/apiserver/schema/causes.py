"""What is wrong with a field, with the messages of kube-apiserver.

A cause becomes one entry of `details.causes` in a 422; together they form its message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Cause:
    reason: str
    message: str
    field: str

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class _Omitted:
    """Stands for a value that a message does not repeat."""


OMITTED: Final = _Omitted()

_WORDS: Final = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
}

# With one of these kube-apiserver does not run the rules of a schema.
BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)


def summary(causes: Iterable[Cause]) -> str:
    """Return all causes in one line, each once: the end of `X "name" is invalid: ...`."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"


def _cause(reason: str, field: str, value: Any, detail: str) -> Cause:
    message = _WORDS[reason]
    if value is not OMITTED:
        message = f"{message}: {shown(value)}"
    if detail:
        message = f"{message}: {detail}"
    return Cause(reason, message, field)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return _cause("FieldValueInvalid", field, value, detail)


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    return _cause("FieldValueTypeInvalid", field, value, detail)


def required(field: str, detail: str = "") -> Cause:
    return _cause("FieldValueRequired", field, OMITTED, detail)


def forbidden(field: str, detail: str) -> Cause:
    return _cause("FieldValueForbidden", field, OMITTED, detail)


def duplicate(field: str, value: Any) -> Cause:
    return _cause("FieldValueDuplicate", field, value, "")


def not_found(field: str, value: Any) -> Cause:
    return _cause("FieldValueNotFound", field, value, "")


def not_supported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    words = [item if isinstance(item, str) else compact_json(item) for item in allowed]
    detail = "supported values: " + ", ".join(quoted(word) for word in words) if words else ""
    return _cause("FieldValueNotSupported", field, value, detail)


def too_long(field: str, limit: int) -> Cause:
    detail = f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}"
    return _cause("FieldValueTooLong", field, OMITTED, detail)


def too_many(field: str, actual: int, limit: int) -> Cause:
    items = "item" if limit == 1 else "items"
    return _cause("FieldValueTooMany", field, actual, f"must have at most {limit} {items}")


def shown(value: Any) -> str:
    """Return a value as messages show it: text quoted, everything else as JSON."""
    return quoted(value) if isinstance(value, str) else compact_json(value)


def quoted(text: str) -> str:
    """Return text as Go quotes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def compact_json(value: Any) -> str:
    """Return JSON as Go prints it: sorted keys, no blanks, `<`, `>` and `&` escaped."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
