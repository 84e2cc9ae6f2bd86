"""The OpenAPI document of the routes, from the table that the handler reads. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import Resource
from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.console.api.routes import ROUTES, Action, Route

Json = dict[str, Any]
_STREAMED: Final = "`watch=true` streams events until the client leaves"
_SELECTORS: Final = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "watch",
    "resourceVersion",
)
_ON_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_ON_DELETE: Final = ("dryRun", "propagationPolicy", "gracePeriodSeconds")
_PATCHES: Final = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
_BODIES: Final = ("application/json", "application/yaml")
_TEMPLATE: Final[Json] = {
    "type": "object",
    "required": ["name", "cpu", "memory"],
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "cpu": {"type": "integer", "minimum": 1},
        "memory": {"type": "integer", "minimum": 1},
        "memoryUnit": {"type": "string", "default": "Gi"},
        "gpu": {"type": "integer", "minimum": 0},
        "gpuAccelerator": {"type": "string", "default": RESOURCE_NVIDIA_GPU},
        "extendedResources": {"type": "object", "additionalProperties": {"type": "integer"}},
        "tolerations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    name: {"type": "string"} for name in ("key", "operator", "value", "effect")
                },
            },
        },
    },
}
_STATUS: Final[Json] = {
    "type": "object",
    "description": "Kubernetes' Status: what every error is.",
    "properties": {
        "kind": {"type": "string", "enum": ["Status"]},
        "apiVersion": {"type": "string"},
        "status": {"type": "string"},
        "message": {"type": "string"},
        "reason": {"type": "string"},
        "code": {"type": "integer"},
    },
}


def document(version: str) -> Json:
    paths: dict[str, Json] = {}
    for path, method, operation in _operations():
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Ray on Kubernetes, as the caller",
            "version": version,
            "description": "The routes of KubeRay's API server (v2). Kubernetes decides with the caller's own rights.",
        },
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "a token of Kubernetes",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "manta-console",
                    "description": "of a browser that has logged in to the console",
                },
            },
            "schemas": {
                **{one.kind: _kind(one) for one in RAY_RESOURCES},
                "ComputeTemplate": _TEMPLATE,
                "Status": _STATUS,
            },
        },
    }


def _kind(resource: Resource) -> Json:
    named = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "type": "object",
        "description": f"A {resource.kind}; its fields are those of the CustomResourceDefinition.",
        "properties": {
            "apiVersion": {"type": "string", "enum": [resource.api_version]},
            "kind": {"type": "string", "enum": [resource.kind]},
            **{name: {"type": "object"} for name in ("metadata", "spec", "status")},
        },
        "x-kubernetes-group-version-kind": [named],
    }


def _operations() -> Iterator[tuple[str, str, Json]]:
    """Path, method and operation, each once."""
    yield from _ray_operations()
    for route in ROUTES:
        if route.action not in (Action.FORWARD, Action.FILL):
            path = route.path.replace("/{rest...}", "/{rest}")
            for method in route.methods:
                yield path, method, _of_route(route, path, method)


def _of_route(route: Route, path: str, method: str) -> Json:
    schema: Json = {}
    if route.action in (Action.TEMPLATE, Action.TEMPLATES):
        schema = {"$ref": "#/components/schemas/ComputeTemplate"}
        if route.action is Action.TEMPLATES and method == "GET":
            schema = {
                "type": "object",
                "properties": {"computeTemplates": {"type": "array", "items": schema}},
            }
    wants_body = method in ("POST", "PUT", "PATCH")
    found = operation(route.summary, path, schema, body=("*/*",) if wants_body else ())
    if route.action is Action.SERVICE:
        found["security"] = [{"bearer": []}]
    elif route.action is Action.TEMPLATES and wants_body:
        found["requestBody"] = _body(_BODIES, schema)
    return found


def _ray_operations() -> Iterator[tuple[str, str, Json]]:
    for one in RAY_RESOURCES:
        schema = {"$ref": f"#/components/schemas/{one.kind}"}
        many: Json = {"type": "object", "properties": {"items": {"type": "array", "items": schema}}}
        everywhere, namespaced = one.path(), one.path("{namespace}")
        named = f"{namespaced}/{{name}}"
        listed = f"List every {one.kind}; {_STREAMED}"
        yield everywhere, "GET", operation(listed, everywhere, many, _SELECTORS)
        yield namespaced, "GET", operation(listed, namespaced, many, _SELECTORS)
        filled = "groups may name a compute template"
        summary = f"Create a {one.kind}; {filled}"
        yield namespaced, "POST", operation(summary, namespaced, schema, _ON_WRITE, _BODIES)
        summary = f"Delete every {one.kind} that is selected"
        yield (
            namespaced,
            "DELETE",
            operation(summary, namespaced, many, (*_SELECTORS[:2], *_ON_DELETE)),
        )
        yield named, "GET", operation(f"Read a {one.kind}", named, schema)
        summary = f"Replace a {one.kind}; {filled}"
        yield named, "PUT", operation(summary, named, schema, _ON_WRITE, _BODIES)
        summary = f"Patch a {one.kind}"
        yield named, "PATCH", operation(summary, named, schema, _ON_WRITE, _PATCHES)
        yield named, "DELETE", operation(f"Delete a {one.kind}", named, {}, _ON_DELETE)
        status = f"{named}/status"
        yield status, "GET", operation(f"Read the status of a {one.kind}", status, schema)
        for method, kinds in (("PUT", _BODIES), ("PATCH", _PATCHES)):
            summary = f"{'Replace' if method == 'PUT' else 'Patch'} the status of a {one.kind}"
            yield status, method, operation(summary, status, schema, _ON_WRITE, kinds)


def operation(
    summary: str,
    path: str,
    schema: Mapping[str, Any],
    query: tuple[str, ...] = (),
    body: tuple[str, ...] = (),
) -> Json:
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in query]
    kind = "application/json" if schema else "*/*"
    found: Json = {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "2XX": {
                "description": "as Kubernetes answers",
                "content": {kind: {"schema": dict(schema)}},
            },
            "default": {
                "description": "an error",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Status"}}
                },
            },
        },
    }
    if body:
        found["requestBody"] = _body(body, schema if body == _BODIES else {})
    return found


def _body(kinds: tuple[str, ...], schema: Mapping[str, Any]) -> Json:
    return {"required": True, "content": {kind: {"schema": dict(schema)} for kind in kinds}}
