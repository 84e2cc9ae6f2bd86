"""kubectl's JSONPath templates: `{range .items[*]}{.metadata.name}{end}`. Pure.

Missing fields give no output, as in kubectl. `api/jsonpath.py` has the paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from manta.api.jsonpath import BadPathError, Path, compile_path, unquoted, values
from manta.api.usage import UsageError

_BLOCK = re.compile(r"\{((?:[^{}\"']|\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])*')*)\}")


@dataclass(frozen=True, slots=True)
class _Range:
    """`{range PATH}` with the parts that are repeated for each value."""

    path: Path
    body: tuple[_Part, ...]


_Part = str | Path | _Range


def render(template: str, document: Any) -> str:
    """The template with values from the document. Raises UsageError for an invalid template."""
    whole = template if "{" in template else f"{{.{template.lstrip('.')}}}"
    pieces = list(_pieces(whole))
    parts = _parse(pieces, template)
    if pieces:
        raise UsageError(f"--output jsonpath: {template!r} has an {{end}} without its {{range}}")
    return "".join(_text(part, document) for part in parts)


# ── parser ───────────────────────────────────────────────────────────────────────────────


def _pieces(template: str) -> Iterator[tuple[str, str]]:
    """Pairs of ("text", text) and ("block", the text between braces)."""
    at = 0
    for found in _BLOCK.finditer(template):
        if found.start() > at:
            yield "text", template[at : found.start()]
        yield "block", found[1].strip()
        at = found.end()
    rest = template[at:]
    if "{" in rest or "}" in rest:
        raise UsageError(f"--output jsonpath: {template!r} has an unmatched brace")
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
            parts.append(unquoted(text))
        else:
            parts.append(_path(text))
    if inside:
        raise UsageError(f"--output jsonpath: {template!r} has a {{range}} without its {{end}}")
    return parts


def _path(text: str) -> Path:
    try:
        return compile_path(text)
    except BadPathError as error:
        raise UsageError(f"--output jsonpath: {error}") from None


def _text(part: _Part, document: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, _Range):
        found = values(part.path, document)
        return "".join("".join(_text(one, value) for one in part.body) for value in found)
    return " ".join(_scalar(value) for value in values(part, document))


def _scalar(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, sort_keys=True, separators=(",", ":"))
    )
