"""The seam to the pure libraries: patches, schemas, built-in kinds and protobuf bodies.

The rest of the server calls these names only, so that each library can grow on its own.
"""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.json_patch import apply_json_patch
from manta.localplane.apiserver.patching.merge import apply_merge_patch
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import (
    Refusal,
    bad_request,
    patch_failed,
    unknown_patch_type,
)


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Raises ValueError for what is no protobuf body."""
    from manta.localplane.apiserver.protobuf.envelope import decode

    return decode(body)


def canonical(served: Served, obj: dict[str, Any], unknown: list[str]) -> dict[str, Any]:
    """The object as the server holds it: unknown fields away, values in their usual spelling.

    Paths of unknown fields are added to `unknown`; a value of the wrong type is a 400.
    """
    if served.custom is not None:
        return served.custom.schema.prune(obj, unknown)
    from manta.localplane.apiserver.builtin_kinds.reading import WrongTypeError, read_object

    try:
        return read_object(served.api_version, served.kind, obj, unknown)
    except WrongTypeError as error:
        raise bad_request(
            f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: '
            f"{error}"
        ) from None


def prepare_create(served: Served, obj: dict[str, Any], core: object) -> dict[str, Any]:  # noqa: ARG001
    if served.kind == "Namespace":
        obj = obj | {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        labels = dict(obj["metadata"].get("labels") or {})
        labels["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
        obj["metadata"]["labels"] = labels
    elif served.kind == "Pod":
        obj = obj | {"status": {"phase": "Pending"}}
    elif served.has_status and served.kind != "Node":
        obj.pop("status", None)
    return obj


def prepare_update(
    served: Served,  # noqa: ARG001
    old: dict[str, Any],  # noqa: ARG001
    new: dict[str, Any],
    core: object,  # noqa: ARG001
    subresource: str,  # noqa: ARG001
) -> dict[str, Any]:
    return new


def validate(
    served: Served,  # noqa: ARG001
    obj: dict[str, Any],  # noqa: ARG001
    old: dict[str, Any] | None,  # noqa: ARG001
) -> list[Cause]:
    return []


def track(
    served: Served,  # noqa: ARG001
    old: dict[str, Any] | None,
    new: dict[str, Any],
    manager: str,  # noqa: ARG001
    now: str,  # noqa: ARG001
    subresource: str,  # noqa: ARG001
) -> dict[str, Any]:
    """The object with the record of who owns which field brought up to date."""
    if old is not None and "managedFields" in old["metadata"]:
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
    return new


def same(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a write changes nothing; times in managedFields do not count."""
    return old == new


def merge_patch(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    try:
        return apply_merge_patch(obj, patch)
    except PatchError as error:
        raise _refusal(error) from None


def json_patch(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    try:
        return apply_json_patch(obj, operations)
    except PatchError as error:
        raise _refusal(error) from None


def strategic_patch(obj: dict[str, Any], patch: Any, served: Served) -> dict[str, Any]:
    from manta.localplane.apiserver.builtin_kinds.nodes import node_of_kind
    from manta.localplane.apiserver.patching.strategic import apply_strategic_patch

    node = node_of_kind(served.api_version, served.kind)
    if node is None:
        raise unknown_patch_type()
    try:
        return apply_strategic_patch(obj, patch, node)
    except PatchError as error:
        raise _refusal(error) from None


def _refusal(error: PatchError) -> Refusal:
    if error.status == 422:
        return patch_failed()
    reason = {400: "BadRequest", 413: "RequestEntityTooLarge"}.get(error.status, "Invalid")
    return Refusal(error.status, reason, error.message)
