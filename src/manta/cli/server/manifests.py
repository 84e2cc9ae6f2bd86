"""Manifests from files: YAML or JSON, one or many documents, `-` for standard input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_documents
from manta.api.usage import UsageError

Document = dict[str, Any]


def add_filename_flag(parser: argparse.ArgumentParser, about: str, **more: Any) -> None:
    """`-f FILE`, which may be repeated. `about` says what happens to the objects of the file."""
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="FILE",
        help=f"{about}: a file, a directory, or - for standard input; may be repeated",
        **more,
    )


def read_manifests(names: Sequence[str]) -> list[Document]:
    """All objects of these files and directories. Raises UsageError if one is invalid."""
    return [document for name in names for document in _read_one(name)]


def _read_one(name: str) -> Iterator[Document]:
    if name == "-":
        yield from parse_manifests(sys.stdin.buffer.read(), "standard input")
        return
    path = Path(name)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json"))
        for file in files:
            yield from parse_manifests(_bytes_of(file), str(file))
        return
    yield from parse_manifests(_bytes_of(path), name)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def parse_manifests(text: bytes, origin: str) -> Iterator[Document]:
    """The objects of a text. Raises UsageError, which names the origin, if it is invalid."""
    try:
        documents = read_documents(text)
    except DocumentError as error:
        raise UsageError(f"{origin} is not valid YAML: {error}") from error
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        yield from _objects(document, f"{origin}, document {number}")


def _objects(document: object, origin: str) -> Iterator[Document]:
    if not isinstance(document, dict):
        raise UsageError(
            f"{origin}: expected an object with apiVersion and kind, found {document!r:.60}"
        )
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _objects(item, origin)
        return
    for field in ("apiVersion", "kind"):
        if not document.get(field):
            raise UsageError(f"{origin}: {field} is missing")
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise UsageError(f"{origin}: metadata.name is missing")
    yield document
