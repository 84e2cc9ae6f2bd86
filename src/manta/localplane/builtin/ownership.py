"""Owner references and the finalizers of what we own, spelled once. Pure."""

from __future__ import annotations

from typing import Any

from manta.api.meta import ObjectMeta
from manta.api.resources import Resource


def controlled_by(resource: Resource, meta: ObjectMeta) -> dict[str, Any]:
    """The reference that makes `meta` the managing owner."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def without_finalizer(meta: ObjectMeta, finalizer: str) -> list[dict[str, Any]]:
    """A JSON patch that removes one finalizer, and fails when the object has changed.

    It does not hang on the resourceVersion: a status write in between does not matter.
    """
    at = f"/metadata/finalizers/{meta.finalizers.index(finalizer)}"
    return [
        {"op": "test", "path": "/metadata/uid", "value": meta.uid},
        {"op": "test", "path": at, "value": finalizer},
        {"op": "remove", "path": at},
    ]


def is_controlled_by(meta: ObjectMeta, uid: str) -> bool:
    return meta.controller is not None and meta.controller.uid == uid
