"""The seam to the pure libraries: patches, schemas, built-in kinds, field owners, protobuf.

The rest of the server calls these names only. Here the libraries' refusals become answers, and
the two sorts of kinds, built-in and custom, become one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from manta.localplane.apiserver.builtin_kinds import preparing, validation
from manta.localplane.apiserver.builtin_kinds.context import Context, RefusedError
from manta.localplane.apiserver.builtin_kinds.nodes import node_of_custom, node_of_kind
from manta.localplane.apiserver.builtin_kinds.reading import WrongTypeError, read_object
from manta.localplane.apiserver.builtin_kinds.warnings import warnings_of
from manta.localplane.apiserver.custom_scale import scale_causes
from manta.localplane.apiserver.patching.apply import conflict_message, server_side_apply
from manta.localplane.apiserver.patching.errors import PatchError
from manta.localplane.apiserver.patching.go_text import go_text
from manta.localplane.apiserver.patching.json_patch import apply_json_patch
from manta.localplane.apiserver.patching.managed_fields import (
    Manager,
    nothing,
    read_entries,
    track_update,
)
from manta.localplane.apiserver.patching.merge import apply_merge_patch
from manta.localplane.apiserver.patching.strategic import apply_strategic_patch
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.schema.node import Node
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import (
    Refusal,
    bad_request,
    forbidden,
    invalid_patch,
    patch_failed,
    plain_failure,
    unknown_patch_type,
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Writing:
    """Who writes, when, and through which subresource: what field owners are told by."""

    manager: str
    now: str
    subresource: str = ""
    force: bool = False


# ── reading bodies ───────────────────────────────────────────────────────────────────────
def decode_protobuf(body: bytes) -> Object:
    """Raises ValueError for what is no protobuf body."""
    from manta.localplane.apiserver.protobuf.envelope import decode

    return decode(body)


def canonical(served: Served, obj: Object, unknown: list[str]) -> Object:
    """The object as the server holds it: unknown fields away, values in their usual spelling.

    Paths of unknown fields are added to `unknown`; a value of the wrong type is a 400.
    """
    if served.custom is not None:
        return served.custom.schema.prune(obj, unknown)
    try:
        return read_object(served.api_version, served.kind, obj, unknown)
    except WrongTypeError as error:
        raise bad_request(
            f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: '
            f"{error}"
        ) from None


def delete_options(body: Object) -> Object:
    """DeleteOptions of the right types."""
    try:
        return read_object("v1", "DeleteOptions", body)
    except WrongTypeError as error:
        raise bad_request(str(error)) from None


# ── filling in and checking ──────────────────────────────────────────────────────────────
def with_defaults(served: Served, obj: Object) -> Object:
    """What a client means by an object, before the server adds anything of its own."""
    if served.custom is not None:
        return served.custom.schema.default(obj)
    return preparing.with_defaults(served.api_version, served.kind, obj)


def prepare_create(served: Served, obj: Object, context: Context) -> Object:
    """What the server itself adds to a new object: addresses, accounts, a first status."""
    if served.custom is not None:
        if served.has_status:
            obj.pop("status", None)
        return obj
    try:
        return preparing.prepare_create(served.api_version, served.kind, obj, context)
    except RefusedError as error:
        name = obj["metadata"].get("name", "")
        raise forbidden(served.plural, served.group, name, str(error)) from None


def prepare_update(
    served: Served, old: Object, new: Object, context: Context, subresource: str
) -> Object:
    if served.custom is not None:
        return new
    return preparing.prepare_update(served.api_version, served.kind, old, new, context, subresource)


def validate(
    served: Served, obj: Object, old: Object | None, subresource: str, earlier: list[Cause]
) -> list[Cause]:
    """What is wrong beside metadata; `earlier` is what is wrong with that."""
    if served.custom is not None:
        counted = list(scale_causes(served.custom.scale, obj))
        return counted + served.custom.schema.validate(obj, old, earlier=earlier)
    if subresource == "status":
        return []
    return validation.validate(served.api_version, served.kind, obj, old, subresource)


def warnings(served: Served, obj: Object, old: Object | None) -> list[str]:
    """What is allowed, and yet probably not meant."""
    return [] if served.custom is not None else list(warnings_of(served.kind, obj, old))


# ── who owns which field ─────────────────────────────────────────────────────────────────
def track(served: Served, old: Object | None, new: Object, writing: Writing) -> list[Object]:
    """managedFields after an update; `old` is None for a create."""
    manager = Manager(writing.manager, "Update", served.api_version, writing.subresource)
    if old is None:
        before = _empty(served, new)
    else:
        owners = _owners(old, new, writing.subresource)
        if not owners:  # what nobody tracked from its beginning is not tracked later
            return []
        before = old | {"metadata": old["metadata"] | {"managedFields": owners}}
    return track_update(
        before,
        new,
        manager=manager,
        now=writing.now,
        node=_node(served),
        reset=_not_written(served, new, writing.subresource),
    )


def apply(served: Served, live: Object | None, config: Object, writing: Writing) -> Object:
    """The object that an apply patch makes, managedFields included. Conflicts are a 409."""
    manager = Manager(writing.manager, "Apply", served.api_version, writing.subresource)
    try:
        result = server_side_apply(
            live,
            config,
            manager=manager,
            force=writing.force,
            node=_node(served),
            now=writing.now,
            empty=_empty(served, config),
            reset=_not_written(served, config, writing.subresource),
        )
    except PatchError as error:
        raise _refusal(error) from None
    if result.conflicts:
        causes = [conflict.cause.as_json() for conflict in result.conflicts]
        raise Refusal(409, "Conflict", conflict_message(result.conflicts), {"causes": causes})
    return result.object


def same(old: Object, new: Object) -> bool:
    """Whether a write changes nothing."""
    return old == new


def _node(served: Served) -> Node | None:
    if served.custom is not None:
        return node_of_custom(served.custom.schema.root)
    return node_of_kind(served.api_version, served.kind)


def _empty(served: Served, obj: Object) -> Object:
    if served.custom is not None:
        return nothing(obj | {"kind": served.kind, "apiVersion": served.api_version})
    return _printed_empty(served.api_version, served.kind)


@cache
def _printed_empty(api_version: str, kind: str) -> Object:
    """What Go prints for an object with nothing in it; nobody changes it."""
    return read_object(api_version, kind, {})


def _not_written(served: Served, obj: Object, subresource: str) -> frozenset[str]:
    """The parts that this endpoint leaves as they are, so that nobody comes to own them here."""
    if subresource == "status":
        return frozenset(obj.keys() - {"status", "metadata"})
    return frozenset(("status",)) if served.has_status else frozenset()


def _owners(old: Object, new: Object, subresource: str) -> list[Object]:
    """The entries before this write: a client may rewrite them, and `[{}]` wipes them."""
    kept: list[Object] = old["metadata"].get("managedFields") or []
    said = new["metadata"].get("managedFields")
    if not said or subresource or said is kept:
        return kept
    if said == [{}]:
        return []
    return said if len(read_entries(new)) == len(said) else kept


# ── patches ──────────────────────────────────────────────────────────────────────────────
def merge_patch(obj: Object, patch: Any) -> Object:
    try:
        return apply_merge_patch(obj, patch)
    except PatchError as error:
        raise _refusal(error) from None


def json_patch(obj: Object, operations: Any) -> Object:
    try:
        return apply_json_patch(obj, operations)
    except PatchError as error:
        raise _refusal(error) from None


def strategic_patch(obj: Object, patch: Any, served: Served) -> Object:
    node = _node(served)
    if node is None:
        raise unknown_patch_type()
    try:
        return apply_strategic_patch(obj, patch, node)
    except PatchError as error:
        if error.unreadable:
            raise invalid_patch(str(error), go_text(patch)) from None
        raise _refusal(error) from None


def _refusal(error: PatchError) -> Refusal:
    if error.status == 422:
        return patch_failed()
    if error.status == 500:
        return plain_failure(error.message)
    reason = {400: "BadRequest", 413: "RequestEntityTooLarge"}.get(error.status, "Invalid")
    return Refusal(error.status, reason, error.message)
