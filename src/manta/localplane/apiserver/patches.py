"""The patch types of the API, and their errors as the API server answers them."""

from __future__ import annotations

from typing import Any, Final

from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.go_text import go_text
from manta.localplane.apiserver.patching.json_patch import apply_json_patch
from manta.localplane.apiserver.patching.merge import apply_merge_patch
from manta.localplane.apiserver.patching.strategic import apply_strategic_patch
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.status_errors import (
    StatusError,
    invalid_patch,
    patch_failed,
    plain_failure,
    unknown_patch_type,
)

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

Object = dict[str, Any]


def merge_patch(obj: Object, patch: Any) -> Object:
    try:
        return apply_merge_patch(obj, patch)
    except PatchError as error:
        raise status_error(error) from None


def json_patch(obj: Object, operations: Any) -> Object:
    try:
        return apply_json_patch(obj, operations)
    except PatchError as error:
        raise status_error(error) from None


def strategic_patch(obj: Object, patch: Any, node: Node | None) -> Object:
    if node is None:
        raise unknown_patch_type()
    try:
        return apply_strategic_patch(obj, patch, node)
    except PatchError as error:
        if error.unreadable:
            raise invalid_patch(str(error), go_text(patch)) from None
        raise status_error(error) from None


def status_error(error: PatchError) -> StatusError:
    if error.status == 422:
        return patch_failed()
    if error.status == 500:
        return plain_failure(error.message)
    reason = {400: "BadRequest", 413: "RequestEntityTooLarge"}.get(error.status, "Invalid")
    return StatusError(error.status, reason, error.message)
