"""An update, piece by piece (pure): whose object it is, which parts count, what is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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


def check_uid(served: Served, old: Object, uid: str | None) -> None:
    """An applied uid must be the one that the object has."""
    if uid and uid != old["metadata"]["uid"]:
        cause = Cause(
            "FieldValueInvalid", f'Invalid value: "{uid}": field is immutable', "metadata.uid"
        )
        raise invalid(served.kind, served.group, old["metadata"]["name"], [cause, cause])


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


_PLACES = {"endpoints": "services/endpoints", "services": "services/specs"}
"""Where etcd holds what does not lie below its plural."""


def check_no_uid(served: Served, key: str, meta: Object) -> None:
    """Whoever names a uid means an object that is there."""
    if meta.get("uid"):
        namespace, _, name = key.rpartition("/")
        nothing = {"namespace": namespace, "name": name, "uid": ""}
        raise _other_uid(served, nothing, meta["uid"])


def _other_uid(served: Served, before: Object, uid: str) -> Refusal:
    key = key_of(before.get("namespace", ""), before["name"])
    place = _PLACES.get(served.group_resource, served.plural)
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}/{key}, "
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


def tracked_parts(served: Served, old: Object, sent: Object, new: Object, part: str) -> Object:
    """Whom a field belongs to is decided by what was sent, also where not all of it is taken."""
    if part in NARROW:
        return sent | {
            "kind": served.kind,
            "apiVersion": served.api_version,
            "metadata": metadata.carry_over(old, sent),
        }
    if part == "status" and served.custom is not None:
        return new | {"metadata": metadata.carry_over(old, sent)}
    return new


def _without_status(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name != "status"}


def count_generation(served: Served, old: Object, new: Object, subresource: str = "") -> None:
    """A change of anything but metadata and status is a new generation."""
    if not served.generation or subresource == "status":
        return
    apart = {"metadata", "kind", "apiVersion"} | ({"status"} if served.has_status else set())
    names = (old.keys() | new.keys()) - apart
    changed = any(old.get(name) != new.get(name) for name in names)
    if served.kind == "Deployment" and not changed:
        changed = old["metadata"].get("annotations") != new["metadata"].get("annotations")
    if changed:
        generation = int(old["metadata"].get("generation") or 0) + 1
        new["metadata"] = new["metadata"] | {"generation": generation}


# ── subresources that write a part of the object ─────────────────────────────────────────
def _only_finalizers(old: Object, new: Object) -> Object:
    finalizers = (new.get("spec") or {}).get("finalizers") or []
    spec = dict(old.get("spec") or {})
    spec.pop("finalizers", None)
    if finalizers:
        spec["finalizers"] = finalizers
    return old | {"spec": spec, "metadata": _identity(old, new)}


def _only_resources(old: Object, new: Object) -> Object:
    spec = dict(old.get("spec") or {})
    for member in ("containers", "initContainers"):
        wanted = {one.get("name"): one for one in (new.get("spec") or {}).get(member) or ()}
        spec_members = spec.get(member)
        if spec_members:
            spec[member] = [_resized(one, wanted.get(one["name"])) for one in spec_members]
    return old | {"spec": spec, "metadata": _identity(old, new)}


def _resized(container: Object, wanted: Object | None) -> Object:
    if wanted is None:
        return container
    changed = {name: wanted[name] for name in ("resources", "resizePolicy") if name in wanted}
    return container | changed


def _only_ephemeral(old: Object, new: Object) -> Object:
    wanted = (new.get("spec") or {}).get("ephemeralContainers") or []
    spec = dict(old.get("spec") or {})
    spec.pop("ephemeralContainers", None)
    if wanted:
        spec["ephemeralContainers"] = wanted
    return old | {"spec": spec, "metadata": _identity(old, new)}


def _identity(old: Object, new: Object) -> Object:
    """Old metadata, but with what the client said about name, uid and revision, to be checked."""
    said = new.get("metadata") or {}
    kept = {name: said[name] for name in ("name", "uid", "resourceVersion") if name in said}
    return dict(old["metadata"]) | kept


NARROW: Final[Mapping[str, Callable[[Object, Object], Object]]] = {
    "finalize": _only_finalizers,
    "resize": _only_resources,
    "ephemeralcontainers": _only_ephemeral,
}
"""Some subresources write only a part of the object, whatever is sent."""
