"""Compare two sets of CRDs field by field.

    python -m tools.crds.compare REFERENCE OURS [--quiet-added]

Each side is a file or a directory of YAML or JSON files. Says which paths of REFERENCE are
missing in OURS, which OURS adds, and which differ (type, default, enum, rule, list type ...);
descriptions are not compared. Exit code 1 when a path is missing, 0 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Facts = dict[str, Any]
"""What is said of each path: a map from `crd/version:path` to the schema's own words."""

_NESTED = ("properties", "items", "additionalProperties", "description")
_UNORDERED = ("required", "enum", "anyOf", "x-kubernetes-list-map-keys", "x-kubernetes-validations")


@dataclass(frozen=True)
class Comparison:
    missing: tuple[str, ...]
    added: tuple[str, ...]
    differing: tuple[tuple[str, Any, Any], ...]


def compare(reference: Facts, ours: Facts) -> Comparison:
    shared = reference.keys() & ours.keys()
    return Comparison(
        missing=tuple(sorted(reference.keys() - ours.keys())),
        added=tuple(sorted(ours.keys() - reference.keys())),
        differing=tuple(
            (path, reference[path], ours[path])
            for path in sorted(shared)
            if reference[path] != ours[path]
        ),
    )


def load(place: Path) -> list[dict[str, Any]]:
    """Every CRD in a file or directory."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    documents: list[dict[str, Any]] = []
    for file in files:
        if file.suffix == ".json":
            documents.append(json.loads(file.read_bytes()))
        elif file.suffix in (".yaml", ".yml"):
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            documents.extend(one for one in yaml.load_all(file.read_bytes(), loader) if one)
    return [one for one in documents if one.get("kind") == "CustomResourceDefinition"]


def facts(definitions: list[dict[str, Any]]) -> Facts:
    return {path: said for one in definitions for path, said in _definition_facts(one)}


def _definition_facts(definition: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    name, spec = definition["metadata"]["name"], definition["spec"]
    for word in ("group", "scope", "names"):
        yield f"{name}:{word}", spec[word]
    for version in spec["versions"]:
        prefix = f"{name}/{version['name']}"
        for word in ("served", "storage", "deprecated", "deprecationWarning", "subresources"):
            if word in version:
                yield f"{prefix}:({word})", version[word]
        for column in version.get("additionalPrinterColumns", ()):
            yield f"{prefix}:(column {column['name']})", column
        yield from _schema_facts(f"{prefix}:", version["schema"]["openAPIV3Schema"])


def _schema_facts(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield path, {word: _ordered(word, said) for word, said in schema.items() if word not in _NESTED}
    for name, inner in schema.get("properties", {}).items():
        yield from _schema_facts(f"{path}.{name}", inner)
    if isinstance(schema.get("items"), dict):
        yield from _schema_facts(f"{path}[]", schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schema_facts(f"{path}{{}}", schema["additionalProperties"])


def _ordered(word: str, said: Any) -> Any:
    return (
        sorted(said, key=lambda one: json.dumps(one, sort_keys=True))
        if word in _UNORDERED
        else said
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools.crds.compare", description=__doc__)
    parser.add_argument("reference", type=Path)
    parser.add_argument("ours", type=Path)
    parser.add_argument("--quiet-added", action="store_true")
    options = parser.parse_args(arguments)
    result = compare(facts(load(options.reference)), facts(load(options.ours)))
    for path in result.missing:
        print(f"missing  {path}")
    for path in () if options.quiet_added else result.added:
        print(f"added    {path}")
    for path, theirs, our in result.differing:
        print(f"differs  {path}\n         reference {theirs}\n         ours      {our}")
    print(
        f"{len(result.missing)} missing, {len(result.added)} added, {len(result.differing)} differ"
    )
    return 1 if result.missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
