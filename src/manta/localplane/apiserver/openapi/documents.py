"""OpenAPI v3 documents: the paths with the extensions that kubectl reads, and the schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha512
from typing import Any

import msgspec

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_kinds.messages import message_of
from manta.localplane.apiserver.openapi.builtin_schemas import (
    LIST_META,
    OBJECT_META,
    component_name,
    reference,
    with_dependencies,
)

_BODIES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


def group_version_path(group: str, version: str) -> str:
    """The key of a document in the index: `api/v1`, `apis/ray.io/v1`."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def document_hash(resources: Iterable[ApiResource]) -> str:
    """A hash that changes with the document of these resources."""
    facts = [
        (
            one.group,
            one.version,
            one.plural,
            one.kind,
            one.namespaced,
            one.verbs,
            [(sub.name, sub.verbs) for sub in one.subresources],
            str(one.strategy.epoch or ""),
        )
        for one in resources
    ]
    return sha512(msgspec.json.encode(facts)).hexdigest().upper()


def index(hashes: Mapping[str, str]) -> dict[str, Any]:
    """`/openapi/v3`: the URL of each document, with its hash."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
            for path, digest in hashes.items()
        }
    }


def document(resources: Iterable[ApiResource], server_version: str) -> dict[str, Any]:
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
def _paths(resource: ApiResource) -> dict[str, Any]:
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
    for sub in resource.subresources:
        paths[f"{one}/{sub.name}"] = _operations(resource, sub.verbs, _ON_ONE | {"create": "post"})
    return {path: operations for path, operations in paths.items() if operations}


_ON_ONE = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_ACTIONS = {"update": "put", "create": "post"}


def _operations(
    resource: ApiResource, verbs: Iterable[str], methods: Mapping[str, str]
) -> dict[str, Any]:
    return {methods[verb]: _operation(resource, verb) for verb in verbs if verb in methods}


def _operation(resource: ApiResource, verb: str) -> dict[str, Any]:
    kind = _component(resource)
    shown = f"{kind}List" if verb == "list" else kind
    answer = {"application/json": {"schema": reference(shown)}}
    operation: dict[str, Any] = {
        "tags": [resource.group or "core"],
        "responses": {"200": {"description": "OK", "content": answer}},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": _gvk(resource),
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


def _bodies(resource: ApiResource, verb: str) -> dict[str, Any]:
    if verb == "patch":
        return {name: {"schema": {"type": "object"}} for name in resource.strategy.patch_types}
    media = _BODIES[:2] if resource.strategy.requires_type_meta else _BODIES
    return {name: {"schema": reference(_component(resource))} for name in media}


# ── schemas ──────────────────────────────────────────────────────────────────────────────
def _gvk(resource: ApiResource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _component(resource: ApiResource) -> str:
    name = message_of(resource.api_version, resource.kind)
    if name is not None:
        return component_name(name)
    reverse = ".".join(reversed(resource.group.split(".")))
    return f"{reverse}.{resource.version}.{resource.kind}"


def _schemas(resource: ApiResource) -> dict[str, Any]:
    kind, given = _component(resource), resource.strategy.openapi()
    own = {"type": "object"} if given is None else _custom_schema(given)
    return {
        kind: own | {"x-kubernetes-group-version-kind": [_gvk(resource)]},
        f"{kind}List": _list_schema(resource, kind),
    }


def _custom_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    properties = {
        **given.get("properties", {}),
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {**reference(OBJECT_META), "description": "Standard object's metadata."},
    }
    return {**given, "properties": properties}


_API_VERSION = "The version of the schema of this object."
_KIND = "The kind of this object."


def _list_schema(resource: ApiResource, kind: str) -> dict[str, Any]:
    gvk = _gvk(resource) | {"kind": f"{resource.kind}List"}
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
