"""Object metadata: what the server sets, what clients may not change, and its validation."""

from __future__ import annotations

import random as randomness
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from manta.api.names import MAX_ANNOTATIONS_BYTES, SUFFIX_ALPHABET, qualified_name_errors
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_kinds.checks.rules import (
    all_invalid,
    immutable,
    labels,
    not_negative,
)
from manta.localplane.apiserver.schema.causes import Cause, forbidden, invalid, required, too_long

_GENERATED_LENGTH = 63
_STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))


def generated_name(prefix: str, random: randomness.Random) -> str:
    """The prefix, cut to fit into a label, with five random characters."""
    suffix = "".join(random.choice(SUFFIX_ALPHABET) for _ in range(5))
    return prefix[: _GENERATED_LENGTH - 5] + suffix


def new_uid(random: randomness.Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def new_metadata(
    sent: Mapping[str, Any], resource: ApiResource, now: str, random: randomness.Random
) -> dict[str, Any]:
    """Metadata of a new object, with the fields that the server sets."""
    meta = dict(sent)
    for name in (
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "creationTimestamp",
        "uid",
    ):
        meta.pop(name, None)
    _drop_empty(meta)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated_name(meta["generateName"], random)
    meta["uid"] = new_uid(random)
    if resource.generation:
        meta["generation"] = 1
    meta["creationTimestamp"] = now
    return meta


def updated_metadata(old: Mapping[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Metadata of a changed object, with the fields that clients may not change."""
    meta = dict(new.get("metadata") or {})
    before = old["metadata"]
    for name in (
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
    ):
        meta.pop(name, None)
        if name in before:
            meta[name] = before[name]
    meta.pop("selfLink", None)
    _drop_empty(meta)
    for name in ("uid", "namespace"):
        if not meta.get(name) and name in before:
            meta[name] = before[name]
    meta["resourceVersion"] = before["resourceVersion"]
    return meta


def _drop_empty(meta: dict[str, Any]) -> None:
    for name in ("labels", "annotations", "ownerReferences", "finalizers", "generateName"):
        if name in meta and not meta[name]:
            del meta[name]


# ── validation ───────────────────────────────────────────────────────────────────────────
def check(obj: Mapping[str, Any], resource: ApiResource) -> list[Cause]:
    meta = obj["metadata"]
    causes = list(_name_causes(meta, resource))
    causes += not_negative("metadata.generation", meta.get("generation", 0))
    causes += labels("metadata.labels", meta.get("labels"))
    causes += _annotation_causes(meta.get("annotations") or {})
    causes += _finalizer_causes(meta.get("finalizers") or [])
    causes += _owner_causes(meta.get("ownerReferences") or [])
    return causes


def check_change(
    old: Mapping[str, Any], new: Mapping[str, Any], resource: ApiResource
) -> list[Cause]:
    """The errors in the change of metadata, repeated as often as kube-apiserver repeats them."""
    meta = new["metadata"]
    shared = [
        *labels("metadata.labels", meta.get("labels")),
        *_annotation_causes(meta.get("annotations") or {}),
        *_owner_causes(meta.get("ownerReferences") or []),
    ]
    changed = [*_changed_causes(old["metadata"], meta), *shared]
    repeated = shared if resource.strategy.repeats_metadata_errors else []
    return repeated + changed + changed


def _changed_causes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Cause]:
    yield from immutable("metadata.uid", str(after.get("uid")), str(before.get("uid")))
    if "deletionTimestamp" in before:
        kept = set(before.get("finalizers") or ())
        added = [name for name in after.get("finalizers") or () if name not in kept]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = "no new finalizers can be added if the object is being deleted, found new "
            yield forbidden("metadata.finalizers", f"{detail}finalizers []string{{{listed}}}")


def _name_causes(meta: Mapping[str, Any], resource: ApiResource) -> Iterator[Cause]:
    name, prefix = meta.get("name"), meta.get("generateName")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    errors_of = resource.strategy.name_errors
    if prefix:  # it may end in a dash
        yield from all_invalid("metadata.generateName", prefix, errors_of(f"{prefix}x"))
    yield from all_invalid("metadata.name", name, errors_of(name))


def _annotation_causes(annotations: Mapping[str, Any]) -> Iterator[Cause]:
    field, size = "metadata.annotations", 0
    for key, value in annotations.items():
        yield from all_invalid(field, key, qualified_name_errors(key.lower()))
        size += len(key.encode()) + len(str(value).encode())
    if size > MAX_ANNOTATIONS_BYTES:
        yield too_long(field, MAX_ANNOTATIONS_BYTES)


def _finalizer_causes(finalizers: list[str]) -> Iterator[Cause]:
    for number, name in enumerate(finalizers):
        yield from all_invalid("metadata.finalizers", name, qualified_name_errors(name))
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"metadata.finalizers[{number}]", name, detail)


def _owner_causes(owners: list[Any]) -> Iterator[Cause]:
    field = "metadata.ownerReferences"
    for owner in owners:
        for member in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(member):
                noun = "version " if member == "apiVersion" else ""
                yield invalid(f"{field}.{member}", "", f"{noun}must not be empty")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            yield _shown(field, owner, "/v1, Kind=Event is disallowed from being an owner")
    controllers = [f"{one['kind']}/{one['name']}" for one in owners if one.get("controller")]
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        yield _shown(field, owners, detail)


def _shown(field: str, value: Any, detail: str) -> Cause:
    """Like `invalid`, but with the keys of the value in the order of the request."""
    shown = msgspec.json.encode(value).decode()
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {detail}", field)
