"""The finalizers of what we own. Pure."""

from __future__ import annotations

from typing import Any

from manta.api.meta import ObjectMeta


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
