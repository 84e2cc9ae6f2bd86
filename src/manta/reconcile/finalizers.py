"""Patches that add or remove a finalizer."""

from __future__ import annotations

from collections.abc import Iterable

from manta.api.meta import ObjectMeta
from manta.api.resources import Resource
from manta.reconcile.actions import Patch
from manta.reconcile.causes import ActionCause


def add_finalizer(
    resource: Resource, meta: ObjectMeta, finalizer: str, cause: ActionCause, why: str = ""
) -> Patch:
    return _set(resource, meta, [*meta.finalizers, finalizer], cause, why)


def remove_finalizer(
    resource: Resource, meta: ObjectMeta, finalizer: str, cause: ActionCause, why: str = ""
) -> Patch:
    return _set(resource, meta, (one for one in meta.finalizers if one != finalizer), cause, why)


def _set(
    resource: Resource, meta: ObjectMeta, finalizers: Iterable[str], cause: ActionCause, why: str
) -> Patch:
    body = {"metadata": {"finalizers": list(finalizers)}}
    # A merge patch replaces the whole list: it is right only for the list that was observed.
    version = meta.resource_version
    return Patch(resource, meta.key, body, cause, why, uid=meta.uid, resource_version=version)
