"""An update, piece by piece (pure): whose object it is, which parts count, what is counted."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver import metadata
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import Refusal, bad_request, conflict, invalid
from manta.localplane.store.objects import key_of

Object = dict[str, Any]


def check_identity(served: Served, old: Object, new: Object, *, replace: bool) -> None:
    """Name, namespace, uid and revision of what the client sends must be those stored."""
    before, meta = old["metadata"], new.setdefault("metadata", {})
    name = before["name"]
    check_name(meta, name)
    check_namespace(meta, before.get("namespace", ""))
    asked = meta.get("resourceVersion")
    if not asked and replace and not served.unconditional_update():
        cause = Cause(
            "FieldValueInvalid",
            "Invalid value: 0: must be specified for an update",
            "metadata.resourceVersion",
        )
        raise invalid(served.plural, served.group, name, [cause])
    if asked and asked not in ("0", before["resourceVersion"]):
        raise conflict(served.plural, served.group, name)
    if replace and meta.get("uid") and meta["uid"] != before["uid"]:
        raise _other_uid(served, before, meta["uid"])


def check_name(meta: Object, name: str) -> None:
    if not meta.get("name"):
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if meta["name"] != name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )


def check_namespace(meta: Object, namespace: str) -> None:
    if meta.get("namespace") and meta["namespace"] != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _other_uid(served: Served, before: Object, uid: str) -> Refusal:
    key = key_of(before.get("namespace", ""), before["name"])
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{served.plural}/{key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {before['uid']}"
    )
    return conflict(served.plural, served.group, before["name"], why)


def counted_parts(served: Served, old: Object, new: Object, subresource: str) -> Object:
    """Which parts of the sent object count: a status write writes status and nothing else."""
    new = new | {"kind": served.kind, "apiVersion": served.api_version}
    if subresource == "status":
        merged = old | {"status": new["status"]} if "status" in new else _without_status(old)
        if served.custom is None:
            merged["metadata"] = metadata.carry_over(old, new)
        else:
            merged["metadata"] = dict(old["metadata"])
        return merged
    merged = new | {"metadata": metadata.carry_over(old, new)}
    if served.has_status:
        merged.pop("status", None)
        if "status" in old:
            merged["status"] = old["status"]
    return merged


def _without_status(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name != "status"}


def count_generation(served: Served, old: Object, new: Object) -> None:
    """A change of anything but metadata and status is a new generation."""
    if not served.generation:
        return
    apart = {"metadata", "kind", "apiVersion"} | ({"status"} if served.has_status else set())
    names = (old.keys() | new.keys()) - apart
    changed = any(old.get(name) != new.get(name) for name in names)
    if served.kind == "Deployment" and not changed:
        changed = old["metadata"].get("annotations") != new["metadata"].get("annotations")
    if changed:
        generation = int(old["metadata"].get("generation") or 0) + 1
        new["metadata"] = new["metadata"] | {"generation": generation}
