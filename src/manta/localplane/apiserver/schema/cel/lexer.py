"""Splits a CEL expression into tokens."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from manta.localplane.apiserver.schema.cel.errors import BadExpressionError


class Token(NamedTuple):
    kind: str
    """`name`, `value`, `op` or `end`."""
    value: Any
    at: int


_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*)
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>0x[0-9a-fA-F]+|\d+)[uU]?
  | (?P<bytes>[bB])?(?P<raw>[rR])?(?P<text>"{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}
      |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<op>\.\?|\[\?|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_BYTE_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|([0-3][0-7]{2})|(.))", re.DOTALL)
_LETTER_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LITERALS = {"true": True, "false": False, "null": None}


def tokenize(text: str) -> list[Token]:
    """The tokens; the last one has the kind `end`. Raises BadExpressionError."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            message = f"Syntax error: token recognition error at: '{text[at:]}'"
            raise BadExpressionError(message, at)
        token = _token(match)
        if token is not None:
            found.append(token)
        at = match.end()
    found.append(Token("end", "<EOF>", at))
    return found


def _token(match: re.Match[str]) -> Token | None:
    at = match.start()
    if match["blank"] is not None:
        return None
    if match["float"] is not None:
        return Token("value", float(match["float"]), at)
    if match["int"] is not None:
        return Token("value", _integer(match["int"], at), at)
    if match["text"] is not None:
        raw = match["raw"] is not None
        if match["bytes"] is not None:
            return Token("value", _unquote_bytes(match["text"], raw=raw), at)
        return Token("value", _unquote(match["text"], raw=raw), at)
    if match["name"] is not None:
        if match["name"] in _LITERALS:
            return Token("value", _LITERALS[match["name"]], at)
        return Token("name", match["name"], at)
    return Token("op", match["op"], at)


def _integer(text: str, at: int) -> int:
    digits = text[2:] if text.startswith("0x") else text.lstrip("0") or "0"
    if len(digits) > 20:
        raise BadExpressionError("Syntax error: invalid int literal", at)
    return int(digits, 16 if text.startswith("0x") else 10)


def _unquote(text: str, *, raw: bool) -> str:
    body = _body(text)
    return body if raw else _ESCAPE.sub(_unescape, body)


def _unquote_bytes(text: str, *, raw: bool) -> bytes:
    """Return a bytes literal: UTF-8, but hexadecimal and octal escapes are one byte each."""
    body = _body(text).encode()
    return body if raw else _BYTE_ESCAPE.sub(_unescape_byte, body)


def _body(text: str) -> str:
    width = 3 if len(text) >= 6 and text[:3] in {'"""', "'''"} else 1
    return text[width:-width]


def _unescape_byte(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return bytes([int(match[1], 16)])
    if match[2]:
        return bytes([int(match[2], 8)])
    letter = match[3].decode(errors="replace")
    return _LETTER_ESCAPES.get(letter, letter).encode()


def _unescape(match: re.Match[str]) -> str:
    for code in match.group(1, 2, 3):
        if code:
            return chr(int(code, 16))
    if match[4]:
        return chr(int(match[4], 8))
    return _LETTER_ESCAPES.get(match[5], match[5])
