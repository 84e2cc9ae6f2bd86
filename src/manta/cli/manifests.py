"""Manifests from files: YAML or JSON, one or many documents, `-` for standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from manta.cli.usage import UsageError

Document = dict[str, Any]


def read_manifests(names: Sequence[str]) -> list[Document]:
    return [document for name in names for document in _read_one(name)]


def _read_one(name: str) -> Iterator[Document]:
    if name == "-":
        yield from _parse(sys.stdin.read(), "standard input")
        return
    path = Path(name)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json"))
        for file in files:
            yield from _parse(file.read_text(), str(file))
        return
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    yield from _parse(text, name)


def _parse(text: str, origin: str) -> Iterator[Document]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.load_all(text, Loader=loader))
    except yaml.YAMLError as error:
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
            raise UsageError(f"{origin}: {field} is missing; every object names its {field}")
    if not (document.get("metadata") or {}).get("name"):
        raise UsageError(f"{origin}: metadata.name is missing")
    yield document
