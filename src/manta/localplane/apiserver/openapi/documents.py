"""The documents themselves: paths with what kubectl looks for, and schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha512
from typing import Any

import msgspec

from manta.localplane.apiserver.builtin_kinds.messages import message_of
from manta.localplane.apiserver.openapi.builtin_schemas import (
    LIST_META,
    OBJECT_META,
    component_name,
    reference,
    with_dependencies,
)

_STRATEGIC = "application/strategic-merge-patch+json"
_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
_APPLY = "application/apply-patch+yaml"
_BODIES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@dataclass(frozen=True, slots=True)
class Documented:
    """One served resource, as much as its document says about it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    verbs: tuple[str, ...] = ("create", "delete", "get", "list", "patch", "update", "watch")
    subresources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(name, verbs)"""
    schema: Mapping[str, Any] | None = None
    """openAPIV3Schema of a custom resource."""
    fingerprint: str = ""
    """Changes with the schema; the schema itself is too large to be hashed on every question."""

    @property
    def group_version_kind(self) -> dict[str, str]:
        return {"group": self.group, "version": self.version, "kind": self.kind}


def group_version_path(group: str, version: str) -> str:
    """The key of a document in the index: `api/v1`, `apis/ray.io/v1`."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def document_hash(resources: Iterable[Documented]) -> str:
    """Changes whenever the document of these resources changes."""
    facts = [
        (
            one.group,
            one.version,
            one.plural,
            one.kind,
            one.namespaced,
            one.verbs,
            one.subresources,
            one.fingerprint,
        )
        for one in resources
    ]
    return sha512(msgspec.json.encode(facts)).hexdigest().upper()


def index(hashes: Mapping[str, str]) -> dict[str, Any]:
    """`/openapi/v3`: where each document is; the hash makes its address immutable."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
            for path, digest in hashes.items()
        }
    }


def document(resources: Iterable[Documented], server_version: str) -> dict[str, Any]:
    """The document of one group and version."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for resource in resources:
        paths.update(_paths(resource))
        schemas.update(_schemas(resource))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(with_dependencies(schemas).items()))},
    }


# ── paths ────────────────────────────────────────────────────────────────────────────────
def _paths(resource: Documented) -> dict[str, Any]:
    root = f"/{group_version_path(resource.group, resource.version)}"
    scope = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    collection = f"{scope}/{resource.plural}"
    one = f"{collection}/{{name}}"
    paths = {
        collection: _operations(resource, resource.verbs, {"list": "get", "create": "post"}),
        one: _operations(resource, resource.verbs, _ON_ONE),
    }
    if resource.namespaced and "list" in resource.verbs:
        paths[f"{root}/{resource.plural}"] = _operations(resource, ("list",), {"list": "get"})
    for name, verbs in resource.subresources:
        paths[f"{one}/{name}"] = _operations(resource, verbs, _ON_ONE | {"create": "post"})
    return {path: operations for path, operations in paths.items() if operations}


_ON_ONE = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_ACTIONS = {"update": "put", "create": "post"}


def _operations(
    resource: Documented, verbs: Iterable[str], methods: Mapping[str, str]
) -> dict[str, Any]:
    return {methods[verb]: _operation(resource, verb) for verb in verbs if verb in methods}


def _operation(resource: Documented, verb: str) -> dict[str, Any]:
    kind = _component(resource)
    shown = f"{kind}List" if verb == "list" else kind
    answer = {"application/json": {"schema": reference(shown)}}
    operation: dict[str, Any] = {
        "tags": [resource.group or "core"],
        "responses": {"200": {"description": "OK", "content": answer}},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": resource.group_version_kind,
    }
    if verb in {"create", "update", "patch"}:
        operation["parameters"] = [_parameter(name) for name in _PARAMETERS[verb]]
        operation["requestBody"] = {"content": _bodies(resource, verb), "required": True}
    elif verb == "delete":
        operation["parameters"] = [_parameter("dryRun")]
    return operation


_PARAMETERS = {
    "create": ("dryRun", "fieldManager", "fieldValidation"),
    "update": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
}


def _parameter(name: str) -> dict[str, Any]:
    type_ = "boolean" if name == "force" else "string"
    return {"name": name, "in": "query", "schema": {"type": type_, "uniqueItems": True}}


def _bodies(resource: Documented, verb: str) -> dict[str, Any]:
    if verb != "patch":
        schema = reference(_component(resource))
        media = _BODIES[:2] if resource.schema is not None else _BODIES
        return {name: {"schema": schema} for name in media}
    strategic = () if resource.schema is not None else (_STRATEGIC,)
    patch = {"schema": {"type": "object"}}
    return dict.fromkeys((*_PATCHES, *strategic, _APPLY), patch)


# ── schemas ──────────────────────────────────────────────────────────────────────────────
def _component(resource: Documented) -> str:
    if resource.schema is None:
        name = message_of(f"{resource.group}/{resource.version}".lstrip("/"), resource.kind)
        if name is not None:
            return component_name(name)
    reverse = ".".join(reversed(resource.group.split(".")))
    return f"{reverse}.{resource.version}.{resource.kind}"


def _schemas(resource: Documented) -> dict[str, Any]:
    kind = _component(resource)
    schemas = {f"{kind}List": _list_schema(resource, kind)}
    if resource.schema is not None:
        schemas[kind] = _custom_schema(resource)
    else:
        schemas[kind] = {
            "type": "object",
            "x-kubernetes-group-version-kind": [resource.group_version_kind],
        }
    return schemas


def _custom_schema(resource: Documented) -> dict[str, Any]:
    given = resource.schema or {}
    properties = {
        **given.get("properties", {}),
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {**reference(OBJECT_META), "description": "Standard object's metadata."},
    }
    return {
        **given,
        "properties": properties,
        "x-kubernetes-group-version-kind": [resource.group_version_kind],
    }


_API_VERSION = "The version of the schema of this object."
_KIND = "The kind of this object."


def _list_schema(resource: Documented, kind: str) -> dict[str, Any]:
    gvk = resource.group_version_kind | {"kind": f"{resource.kind}List"}
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": reference(LIST_META),
            "items": {"type": "array", "items": reference(kind)},
        },
        "x-kubernetes-group-version-kind": [gvk],
    }
