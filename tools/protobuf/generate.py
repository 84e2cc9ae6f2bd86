"""Write the table of the built-in kinds from the Go types of Kubernetes.

    python tools/protobuf/generate.py            # downloads the modules with `go mod download`

The table tells how a kind looks in JSON and in protobuf, how its lists merge and which fields Go
prints although they are empty. Only names, numbers and markers are taken; no text, no code.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = "v0.35.4"
TARGET = Path(__file__).parents[2] / "src/manta/localplane/apiserver/builtin_kinds/kinds.json"

# Go package -> (module, directory, API group, version); meta/v1 serves every group.
PACKAGES = {
    "k8s.io/api/core/v1": ("", "v1"),
    "k8s.io/api/apps/v1": ("apps", "v1"),
    "k8s.io/api/autoscaling/v1": ("autoscaling", "v1"),
    "k8s.io/api/autoscaling/v2": ("autoscaling", "v2"),
    "k8s.io/api/batch/v1": ("batch", "v1"),
    "k8s.io/api/coordination/v1": ("coordination.k8s.io", "v1"),
    "k8s.io/api/discovery/v1": ("discovery.k8s.io", "v1"),
    "k8s.io/api/events/v1": ("events.k8s.io", "v1"),
    "k8s.io/api/networking/v1": ("networking.k8s.io", "v1"),
    "k8s.io/api/node/v1": ("node.k8s.io", "v1"),
    "k8s.io/api/policy/v1": ("policy", "v1"),
    "k8s.io/api/rbac/v1": ("rbac.authorization.k8s.io", "v1"),
    "k8s.io/api/scheduling/v1": ("scheduling.k8s.io", "v1"),
    "k8s.io/api/storage/v1": ("storage.k8s.io", "v1"),
    "k8s.io/api/authentication/v1": ("authentication.k8s.io", "v1"),
    "k8s.io/api/authorization/v1": ("authorization.k8s.io", "v1"),
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": ("apiextensions.k8s.io", "v1"),
    "k8s.io/apimachinery/pkg/apis/meta/v1": ("meta.k8s.io", "v1"),
}
MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver")

# Types whose JSON is not that of a struct; the readers know them by these names.
SPECIAL = {
    "k8s.io/apimachinery/pkg/apis/meta/v1.Time": "Time",
    "k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime": "MicroTime",
    "k8s.io/apimachinery/pkg/apis/meta/v1.Duration": "Duration",
    "k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1": "Raw",
    "k8s.io/apimachinery/pkg/apis/meta/v1.Verbs": "Strings",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "Quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "IntOrString",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "Raw",
    "k8s.io/api/authentication/v1.ExtraValue": "Strings",
    "k8s.io/api/authorization/v1.ExtraValue": "Strings",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON": "Raw",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool": "SchemaOrBool",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray": "SchemaOrArray",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}
SCALARS = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "int64": "int64",
    "uint8": "int32",
    "uint32": "int64",
    "uint64": "int64",
    "float32": "float",
    "float64": "float",
    "byte": "byte",
}

FIELD = re.compile(r"^\t(?:(?P<name>\w+) +)?(?P<type>[\w.*\[\]]+)\s*`(?P<tags>[^`]*)`")
MARKER = re.compile(r"//\s*\+(?P<name>[A-Za-z0-9:]+)(?:=(?P<value>.*))?$")


@dataclass
class GoType:
    package: str
    imports: dict[str, str]
    alias: str = ""
    """For `type X string`: what it stands for."""
    fields: list[dict[str, Any]] = field(default_factory=list)
    markers: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_kind(self) -> bool:
        return any(
            entry["type"] == "metav1.TypeMeta" or entry["type"] == "TypeMeta"
            for entry in self.fields
        )


def module_directories() -> dict[str, Path]:
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "go.mod").write_text("module scratch\n\ngo 1.24\n")
        command = ["go", "mod", "download", "-json", *(f"{name}@{VERSION}" for name in MODULES)]
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        done = subprocess.run(
            command, cwd=scratch, env=environment, check=True, capture_output=True, text=True
        )
    decoder, text, found = json.JSONDecoder(), done.stdout.strip(), {}
    while text:
        entry, end = decoder.raw_decode(text)
        found[entry["Path"]] = Path(entry["Dir"])
        text = text[end:].strip()
    return found


def directory_of(package: str, modules: dict[str, Path]) -> Path:
    module = max((name for name in modules if package.startswith(name)), key=len)
    return modules[module] / package.removeprefix(module).strip("/")


def read_package(package: str, directory: Path) -> Iterator[tuple[str, GoType]]:
    for path in sorted(directory.glob("*.go")):
        if path.name.endswith("_test.go") or path.name.startswith(("zz_", "generated")):
            continue
        yield from read_file(package, path.read_text())


def read_file(package: str, text: str) -> Iterator[tuple[str, GoType]]:
    imports = {
        (alias or path.rpartition("/")[2]): path
        for alias, path in re.findall(r'^(?:import )?\t?(\w+)? ?"([\w./-]+)"$', text, re.MULTILINE)
    }
    markers: dict[str, list[str]] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if found := MARKER.match(line):
            markers.setdefault(found["name"], []).append(found["value"] or "")
        elif declared := re.match(r"^type (\w+) struct \{$", line):
            yield (
                declared[1],
                GoType(package, imports, fields=list(read_fields(lines)), markers=markers),
            )
            markers = {}
        elif declared := re.match(r"^type (\w+) struct ?\{\}$", line):
            yield declared[1], GoType(package, imports, markers=markers)
            markers = {}
        elif declared := re.match(r"^type (\w+) =? ?([\w.\[\]*]+)$", line):
            yield declared[1], GoType(package, imports, alias=declared[2], markers=markers)
            markers = {}
        elif not line.startswith("//"):
            # A blank line may part the markers from their type; anything else ends them.
            markers = markers if not line.strip() else {}


def read_fields(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    markers: dict[str, list[str]] = {}
    for line in lines:
        if line == "}":
            return
        if found := MARKER.match(line.strip()):
            markers.setdefault(found["name"], []).append(found["value"] or "")
        elif found := FIELD.match(line):
            tags = dict(re.findall(r'(\w+):"([^"]*)"', found["tags"]))
            yield {"type": found["type"], "tags": tags, "markers": markers}
            markers = {}
        elif not line.strip().startswith("//") and line.strip():
            markers = {}


class Table:
    def __init__(self, types: dict[str, GoType]) -> None:
        self.types = types
        self.messages: dict[str, Any] = {}
        self._waiting: list[str] = []

    def add(self, name: str) -> None:
        self._waiting.append(name)
        while self._waiting:
            name = self._waiting.pop()
            if name not in self.messages:
                self.messages[name] = None
                self.messages[name] = self._message(self.types[name])

    def _message(self, source: GoType) -> Any:
        entries = [entry for raw in source.fields if (entry := self._field(source, raw))]
        atomic = source.markers.get("structType") == ["atomic"] or source.markers.get(
            "mapType"
        ) == ["atomic"]
        return {"f": entries, "a": 1} if atomic else {"f": entries}

    def _field(self, source: GoType, raw: dict[str, Any]) -> dict[str, Any] | None:
        name, _, options = raw["tags"].get("json", "").partition(",")
        if name == "-" or raw["type"].endswith("TypeMeta"):
            return None
        number = re.match(r"\w+,(\d+)", raw["tags"].get("protobuf", ""))
        entry: dict[str, Any] = {"n": name, "t": self._type(source, raw["type"])}
        if number:
            entry["p"] = int(number[1])
        flags = "".join(
            letter
            for letter, holds in (
                ("o", "omitempty" in options or "omitzero" in options),
                ("z", "omitzero" in options),
                ("*", raw["type"].startswith("*")),
                ("i", "inline" in options),
                ("r", "optional" not in raw["markers"] and "omitempty" not in options),
            )
            if holds
        )
        if flags:
            entry["f"] = flags
        self._merging(entry, raw)
        return entry

    def _merging(self, entry: dict[str, Any], raw: dict[str, Any]) -> None:
        markers, tags = raw["markers"], raw["tags"]
        if "listType" in markers:
            entry["l"] = markers["listType"][-1]
        if "listMapKey" in markers:
            entry["k"] = markers["listMapKey"]
        if "atomic" in markers.get("mapType", []) + markers.get("structType", []):
            entry["a"] = 1
        if "patchStrategy" in tags:
            entry["s"] = tags["patchStrategy"]
        if "patchMergeKey" in tags:
            entry["g"] = tags["patchMergeKey"]
        default = markers.get("default", [""])[-1]
        if default and re.match(r'^("|\d|true|false)', default):
            entry["d"] = json.loads(default)

    def _type(self, source: GoType, text: str) -> str:
        text = text.removeprefix("*")
        if text == "[]byte":
            return "bytes"
        if text.startswith("[]"):
            return "[]" + self._type(source, text[2:])
        if text.startswith("map["):
            return "{}" + self._type(source, text[text.index("]") + 1 :])
        if text in SCALARS:
            return SCALARS[text]
        prefix, _, base = text.rpartition(".")
        full = f"{source.imports[prefix] if prefix else source.package}.{base}"
        return self._named(full)

    def _named(self, full: str) -> str:
        if full in SPECIAL:
            if "Schema" in SPECIAL[full]:
                self._waiting.append(f"{full.rpartition('.')[0]}.JSONSchemaProps")
            return SPECIAL[full]
        if full == "k8s.io/apimachinery/pkg/types.UID" or full.endswith("types.NodeName"):
            return "string"
        known = self.types.get(full)
        if known is None:
            sys.exit(f"unknown type {full}")
        if known.alias:
            return self._type(known, known.alias)
        self._waiting.append(full)
        return full


def short_names(messages: dict[str, Any]) -> dict[str, str]:
    """`core.PodSpec` for most; the version stays where a group has two."""
    return {
        full: full.replace("k8s.io/api/", "")
        .replace("k8s.io/apimachinery/pkg/apis/meta/v1", "meta")
        .replace("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "apiextensions")
        .replace("autoscaling/", "autoscaling_")
        .replace("/v1.", ".")
        for full in messages
    }


def main() -> None:
    modules = module_directories()
    types = {
        f"{package}.{name}": found
        for package in PACKAGES
        for name, found in read_package(package, directory_of(package, modules))
    }
    table = Table(types)
    kinds: dict[str, str] = {}
    for full, found in sorted(types.items()):
        package, _, name = full.rpartition(".")
        group, version = PACKAGES[package]
        if found.is_kind and not name.endswith("List") and not name.endswith("RateLimitOptions"):
            table.add(full)
            kinds[f"{group}/{version}/{name}".lstrip("/")] = full
    shorter = short_names(table.messages)
    text = json.dumps(
        {
            "version": VERSION,
            "kinds": {kind: shorter[full] for kind, full in kinds.items()},
            "messages": {shorter[full]: table.messages[full] for full in sorted(table.messages)},
        },
        separators=(",", ":"),
    )
    for full in sorted(shorter, key=len, reverse=True):
        text = text.replace(f'{full}"', f'{shorter[full]}"')
    TARGET.write_text(text.replace('},"', '},\n"') + "\n")
    print(f"{TARGET}: {len(kinds)} kinds, {len(table.messages)} messages, {len(text)} bytes")


if __name__ == "__main__":
    main()
