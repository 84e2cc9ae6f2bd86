"""The schema and the page of values.yaml, from its values and the comments above them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from manta.manifests.gang import SCHEDULERS

Json = dict[str, Any]

FREE_FORM = frozenset(
    (
        "resources",
        "podSecurityContext",
        "securityContext",
        "livenessProbe",
        "readinessProbe",
        "metrics.grafanaDashboard.labels",
        "history.server.resources",
        "console.resources",
        "activator.resources",
    )
)
"""Values that go to Kubernetes unchanged."""

_NAMES: Json = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_PORTS: Json = {
    "type": "array",
    "items": {"type": "integer", "minimum": 1, "maximum": 65535},
}
_ENCODER: Json = {"type": "string", "enum": ["json", "console"]}
KNOWN: Mapping[str, Json] = {
    "replicas": {"type": "integer", "minimum": 0},
    "reconcileConcurrency": {"type": "integer", "minimum": 1},
    "kubeClient.qps": {"type": "number"},
    "kubeClient.burst": {"type": "integer", "minimum": 1},
    "image.tag": {"type": "string"},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"type": "string", "enum": ["IfNotPresent", "Always", "Never"]},
    "watchNamespaces": _NAMES,
    "watchNamespace": _NAMES,
    "recording.sizeMiB": {"type": "integer", "minimum": 1},
    "history.store": {"type": "string", "pattern": "^((file|s3|gs|az)://[^@?]+)?$"},
    "history.retention.olderThan": {"type": "string", "pattern": "^([0-9]+[smhd])?$"},
    "history.retention.keepAtLeast": {"type": "string", "pattern": "^[0-9]+[smhd]$"},
    "history.server.port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "console.url": {"type": "string", "pattern": "^(https?://[^/@?#]+)?$"},
    "console.history": {"type": "string", "pattern": "^(https?://[^/@?#]+)?$"},
    "console.dashboards.url": {"type": "string", "pattern": "^(https?://[^/@?#]+)?$"},
    "console.login": {"type": "string", "enum": ["token", "oidc", "proxy"]},
    "console.namespaces": _NAMES,
    "console.proxy.groups": _NAMES,
    "console.port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "logging.stdoutEncoder": _ENCODER,
    "logging.fileEncoder": _ENCODER,
    "batchScheduler.name": {"type": "string", "enum": ["", "default", *SCHEDULERS]},
    "operatorCommand": {"type": "string", "enum": ["", "/manager"]},
    "hostUsers": {"type": ["boolean", "null"]},
    "podDisruptionBudget.minAvailable": {"type": ["integer", "string"]},
    "networkPolicy.apiServerPorts": _PORTS,
    "networkPolicy.rayPorts": _PORTS,
    "webhook.replicas": {"type": "integer", "minimum": 1},
    "webhook.failurePolicy": {"type": "string", "enum": ["Ignore", "Fail"]},
    "webhook.timeoutSeconds": {"type": "integer", "minimum": 1, "maximum": 30},
    "service.port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "featureGates": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name", "enabled"],
            "properties": {"name": {"type": "string"}, "enabled": {"type": "boolean"}},
            "additionalProperties": False,
        },
    },
}
"""Schemas of values that need more than the type of their default."""

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}


def schema_of(text: str) -> str:
    """The schema of charts/manta, as JSON."""
    return json.dumps(values_schema(text, KNOWN), indent=2) + "\n"


def values_schema(text: str, known: Mapping[str, Json]) -> Json:
    """The schema of a values.yaml: unknown keys and wrong types are errors."""
    comments = dict(_comments(text))
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_schema(yaml.safe_load(text), "", comments, known),
    }
    schema["properties"]["global"] = {"type": "object", "description": "Helm's own."}
    return schema


def _schema(value: Any, path: str, comments: Mapping[str, str], known: Mapping[str, Json]) -> Json:
    about = {"description": comments[path]} if path in comments else {}
    if path in known:
        return {**known[path], **about}
    if isinstance(value, Mapping) and value and path not in FREE_FORM:
        inner = {
            key: _schema(item, f"{path}.{key}".lstrip("."), comments, known)
            for key, item in value.items()
        }
        return {"type": "object", **about, "properties": inner, "additionalProperties": False}
    return {"type": _TYPES.get(type(value), "object"), **about}


def _comments(text: str) -> Iterator[tuple[str, str]]:
    """(path of a value, the `# -- comment` above it)."""
    path: list[str] = []
    comment = ""
    for line in text.splitlines():
        if found := re.match(r"\s*# -- (.+)", line):
            comment = found[1]
        elif found := re.match(r"( *)([\w-]+):", line):
            depth = len(found[1]) // 2
            path[depth:] = [found[2]]
            if comment:
                yield ".".join(path), comment
            comment = ""


def page_of(text: str) -> str:
    """The values as a table."""
    values = yaml.safe_load(text)
    rows = [
        f"| `{path}` | `{json.dumps(_at(values, path))}` | {about} |"
        for path, about in _comments(text)
    ]
    return "\n".join(("| Value | Default | Meaning |", "|---|---|---|", *rows)) + "\n"


def _at(values: Any, path: str) -> Any:
    for part in path.split("."):
        values = values[part]
    return values
