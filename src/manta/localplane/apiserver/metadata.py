"""Object metadata: what the server fills in, what it guards, and what it refuses."""

from __future__ import annotations

import random as randomness
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from manta.api.names import (
    dns1035_label_errors,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served

ANNOTATION_LIMIT = 262144
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_LENGTH = 63
_LABEL_NAMES = frozenset(("namespaces",))
_PATH_NAMES = frozenset(("roles", "clusterroles", "rolebindings", "clusterrolebindings"))
_STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))


def generated_name(prefix: str, random: randomness.Random) -> str:
    """Five random letters after the prefix, which is cut so that the name stays a label."""
    suffix = "".join(random.choice(_SUFFIX_LETTERS) for _ in range(5))
    return prefix[: _GENERATED_LENGTH - 5] + suffix


def new_uid(random: randomness.Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def begin(
    sent: Mapping[str, Any], served: Served, now: str, random: randomness.Random
) -> dict[str, Any]:
    """Metadata of a new object: what clients may not choose is chosen here."""
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
    if served.generation:
        meta["generation"] = 1
    meta["creationTimestamp"] = now
    return meta


def carry_over(old: Mapping[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Metadata of a changed object: what clients may not change keeps its old value."""
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


# ── checks ───────────────────────────────────────────────────────────────────────────────
def check(obj: Mapping[str, Any], served: Served) -> list[Cause]:
    meta = obj["metadata"]
    causes = list(_name_causes(meta, served))
    if meta.get("generation", 0) < 0:
        message = f"Invalid value: {meta['generation']}: must be greater than or equal to 0"
        causes.append(Cause("FieldValueInvalid", message, "metadata.generation"))
    causes += _label_causes(meta.get("labels") or {})
    causes += _annotation_causes(meta.get("annotations") or {})
    causes += _finalizer_causes(meta.get("finalizers") or [])
    causes += _owner_causes(meta.get("ownerReferences") or [])
    return causes


def check_change(old: Mapping[str, Any], new: Mapping[str, Any], served: Served) -> list[Cause]:
    """What an update may not do to metadata."""
    shared = _shared_causes(new["metadata"])
    # The real server looks at metadata four times here, and at that of custom resources thrice.
    causes = [] if served.custom is not None else list(shared)
    changed = _changed_causes(old, new) + shared
    return causes + changed + changed


def _shared_causes(meta: Mapping[str, Any]) -> list[Cause]:
    return [
        *_label_causes(meta.get("labels") or {}),
        *_annotation_causes(meta.get("annotations") or {}),
        *_owner_causes(meta.get("ownerReferences") or []),
    ]


def _changed_causes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    before, after = old["metadata"], new["metadata"]
    if after.get("uid") != before.get("uid"):
        shown = f'Invalid value: "{after.get("uid")}": field is immutable'
        causes += [Cause("FieldValueInvalid", shown, "metadata.uid")]
    if "deletionTimestamp" in before:
        kept = set(before.get("finalizers") or ())
        added = [name for name in after.get("finalizers") or () if name not in kept]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            message = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(Cause("FieldValueForbidden", message, "metadata.finalizers"))
    return causes


def _name_causes(meta: Mapping[str, Any], served: Served) -> Iterator[Cause]:
    name = meta.get("name")
    if not name:
        message = "Required value: name or generateName is required"
        yield Cause("FieldValueRequired", message, "metadata.name")
        return
    prefix = meta.get("generateName")
    # A generated name is checked with its prefix, which may end in a dash.
    for error in _name_errors(f"{prefix}x", served) if prefix else ():
        shown = f'Invalid value: "{prefix}": {error}'
        yield Cause("FieldValueInvalid", shown, "metadata.generateName")
    for error in _name_errors(str(name), served):
        yield Cause("FieldValueInvalid", f'Invalid value: "{name}": {error}', "metadata.name")


def _name_errors(name: str, served: Served) -> tuple[str, ...]:
    if served.plural in _PATH_NAMES and served.group == "rbac.authorization.k8s.io":
        if name in (".", ".."):
            return (f"may not be '{name}'",)
        return tuple(f"may not contain '{sign}'" for sign in "/%" if sign in name)
    if served.group == "" and served.plural in _LABEL_NAMES:
        return ("must not contain dots",) if "." in name else dns1123_label_errors(name)
    if served.group == "" and served.plural == "services":
        return dns1035_label_errors(name)
    return dns1123_subdomain_errors(name)


def _label_causes(labels: Mapping[str, Any]) -> Iterator[Cause]:
    for key, value in labels.items():
        for error in qualified_name_errors(key):
            yield Cause("FieldValueInvalid", f'Invalid value: "{key}": {error}', "metadata.labels")
        for error in label_value_errors(str(value)):
            message = f'Invalid value: "{value}": {error}'
            yield Cause("FieldValueInvalid", message, "metadata.labels")


def _annotation_causes(annotations: Mapping[str, Any]) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        for error in qualified_name_errors(key.lower()):
            message = f'Invalid value: "{key}": {error}'
            yield Cause("FieldValueInvalid", message, "metadata.annotations")
        size += len(key.encode()) + len(str(value).encode())
    if size > ANNOTATION_LIMIT:
        message = f"Too long: may not be more than {ANNOTATION_LIMIT} bytes"
        yield Cause("FieldValueTooLong", message, "metadata.annotations")


def _finalizer_causes(finalizers: list[Any]) -> Iterator[Cause]:
    for number, name in enumerate(finalizers):
        for error in qualified_name_errors(str(name)):
            message = f'Invalid value: "{name}": {error}'
            yield Cause("FieldValueInvalid", message, "metadata.finalizers")
        if "/" not in str(name) and name not in _STANDARD_FINALIZERS:
            message = (
                f'Invalid value: "{name}": name is neither a standard finalizer name nor is it '
                "fully qualified"
            )
            yield Cause("FieldValueInvalid", message, f"metadata.finalizers[{number}]")


def _owner_causes(owners: list[Any]) -> Iterator[Cause]:
    controllers = [owner for owner in owners if owner.get("controller")]
    for owner in owners:
        for member in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(member):
                what = "version must" if member == "apiVersion" else "must"
                message = f'Invalid value: "": {what} not be empty'
                yield Cause("FieldValueInvalid", message, f"metadata.ownerReferences.{member}")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            shown = msgspec.json.encode(owner).decode()
            message = f"Invalid value: {shown}: /v1, Kind=Event is disallowed from being an owner"
            yield Cause("FieldValueInvalid", message, "metadata.ownerReferences")
    if len(controllers) > 1:
        first, second = controllers[:2]
        shown = msgspec.json.encode(owners).decode()
        message = (
            f"Invalid value: {shown}: Only one reference can have Controller set to true. "
            f'Found "true" in references for {first["kind"]}/{first["name"]} and '
            f"{second['kind']}/{second['name']}"
        )
        yield Cause("FieldValueInvalid", message, "metadata.ownerReferences")
