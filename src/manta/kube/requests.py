"""Builds paths, queries and bodies of API requests. Pure."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.kube.transport import Query

PatchKind = Literal["merge", "json", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]

PATCH_TYPES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",  # JSON is YAML
}

_PATH_SAFE = "/:@!$&'()*+,;=~"


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The percent-encoded path. RBAC names may contain any character but `/`."""
    return quote(resource.path(namespace, name, subresource), safe=_PATH_SAFE)


def object_path(resource: Resource, key: Key, subresource: str = "") -> str:
    """The path of one object. Raises ValueError for an empty name or namespace, which would address the
    whole collection."""
    if not key.name:
        raise ValueError(f"no name given for one of {resource.group_resource}")
    if resource.namespaced and not key.namespace:
        raise ValueError(f"no namespace given for {resource.group_resource} {key.name}")
    return path_of(resource, key.namespace, key.name, subresource)


def query_of(**parameters: str | int | bool | None) -> Query:
    """The query without empty parameters, in the given order."""
    return tuple(
        (name.rstrip("_"), "true" if value is True else str(value))
        for name, value in parameters.items()
        if value
    )


def watch_query(
    *, labels: str, fields: str, resource_version: str, initial_events: bool, timeout_seconds: int
) -> Query:
    return query_of(
        watch=True,
        allowWatchBookmarks=True,
        labelSelector=labels,
        fieldSelector=fields,
        resourceVersion=resource_version,
        resourceVersionMatch="NotOlderThan" if initial_events else "",
        sendInitialEvents=initial_events,
        timeoutSeconds=timeout_seconds,
    )


def write_query(
    *, dry_run: bool, field_manager: str = "", force: bool = False, field_validation: str = ""
) -> Query:
    return query_of(
        dryRun="All" if dry_run else "",
        fieldManager=field_manager,
        force=force,
        fieldValidation=field_validation,
    )


def delete_options(
    *,
    uid: str | None,
    resource_version: str | None,
    propagation: Propagation,
    grace_seconds: int | None,
    dry_run: bool = False,
) -> dict[str, Any]:
    preconditions = {
        name: value
        for name, value in (("uid", uid), ("resourceVersion", resource_version))
        if value is not None
    }
    options: dict[str, Any] = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": propagation,
    }
    if preconditions:
        options["preconditions"] = preconditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return options
