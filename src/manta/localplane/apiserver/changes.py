"""The parts of an update (pure): identity checks, which fields it writes, the generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from manta.localplane.apiserver import metadata
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.schema.causes import invalid as invalid_value
from manta.localplane.apiserver.status_errors import StatusError, bad_request, conflict, invalid
from manta.localplane.store.objects import key_of

Object = dict[str, Any]


def check_identity(resource: ApiResource, old: Object, new: Object, *, replace: bool) -> None:
    """Name, namespace, uid and resourceVersion that are sent must be those of the stored object."""
    before, meta = old["metadata"], new.setdefault("metadata", {})
    name = before["name"]
    check_name(meta, name)
    check_namespace(meta, before.get("namespace", ""))
    version = meta.get("resourceVersion")
    if not version and replace and not resource.strategy.allow_unconditional_update:
        detail = "must be specified for an update"
        cause = invalid_value("metadata.resourceVersion", 0, detail)
        raise invalid(resource.plural, resource.group, name, [cause])
    if version and version not in ("0", before["resourceVersion"]):
        raise conflict(resource.plural, resource.group, name)
    if replace and meta.get("uid") and meta["uid"] != before["uid"]:
        raise _other_uid(resource, before, meta["uid"])


def check_uid(resource: ApiResource, old: Object, uid: str | None) -> None:
    """Raise a 422 if an apply names another uid than the object has."""
    if uid and uid != old["metadata"]["uid"]:
        cause = invalid_value("metadata.uid", uid, "field is immutable")
        raise invalid(resource.kind, resource.group, old["metadata"]["name"], [cause, cause])


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


_ETCD_PATHS = {"endpoints": "services/endpoints", "services": "services/specs"}
"""Where etcd stores resources that are not below their plural."""


def check_no_uid(resource: ApiResource, key: str, meta: Object) -> None:
    """Raise a 409 if an update that creates an object names a uid."""
    if meta.get("uid"):
        namespace, _, name = key.rpartition("/")
        nothing = {"namespace": namespace, "name": name, "uid": ""}
        raise _other_uid(resource, nothing, meta["uid"])


def _other_uid(resource: ApiResource, before: Object, uid: str) -> StatusError:
    key = key_of(before.get("namespace", ""), before["name"])
    path = _ETCD_PATHS.get(resource.group_resource, resource.plural)
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{path}/{key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {before['uid']}"
    )
    return conflict(resource.plural, resource.group, before["name"], why)


def written_parts(resource: ApiResource, old: Object, new: Object, subresource: str) -> Object:
    """The old object with the parts of the sent one that this endpoint writes."""
    new = new | {"kind": resource.kind, "apiVersion": resource.api_version}
    if subresource == "status":
        merged = old | {"status": new["status"]} if "status" in new else _without_status(old)
        if resource.strategy.status_changes_metadata:
            merged["metadata"] = metadata.updated_metadata(old, new)
        else:
            merged["metadata"] = dict(old["metadata"])
        return merged
    merged = new | {"metadata": metadata.updated_metadata(old, new)}
    if resource.has_status:
        merged.pop("status", None)
        if "status" in old:
            merged["status"] = old["status"]
    return merged


def tracked_parts(
    resource: ApiResource, old: Object, sent: Object, new: Object, part: str
) -> Object:
    """What managedFields are computed from: the sent object, even if only a part of it is written."""
    if part in NARROW:
        return sent | {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata.updated_metadata(old, sent),
        }
    if part == "status" and not resource.strategy.status_changes_metadata:
        return new | {"metadata": metadata.updated_metadata(old, sent)}
    return new


def _without_status(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name != "status"}


def count_generation(
    resource: ApiResource, old: Object, new: Object, subresource: str = ""
) -> None:
    """A change of anything but metadata and status is a new generation."""
    if not resource.generation or subresource == "status":
        return
    apart = {"metadata", "kind", "apiVersion"} | ({"status"} if resource.has_status else set())
    names = (old.keys() | new.keys()) - apart
    changed = any(old.get(name) != new.get(name) for name in names)
    if resource.strategy.annotations_count and not changed:
        changed = old["metadata"].get("annotations") != new["metadata"].get("annotations")
    if changed:
        generation = int(old["metadata"].get("generation") or 0) + 1
        new["metadata"] = new["metadata"] | {"generation": generation}


# ── subresources that write a part of the object ─────────────────────────────────────────
def _only(field: str) -> Callable[[Object, Object], Object]:
    """Changes only this list of the spec."""

    def narrow(old: Object, new: Object) -> Object:
        spec = {name: value for name, value in (old.get("spec") or {}).items() if name != field}
        if wanted := (new.get("spec") or {}).get(field):
            spec[field] = wanted
        return old | {"spec": spec, "metadata": _identity(old, new)}

    return narrow


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


def _identity(old: Object, new: Object) -> Object:
    """Old metadata with the name, uid and resourceVersion that the client sent, to be checked."""
    sent = new.get("metadata") or {}
    kept = {name: sent[name] for name in ("name", "uid", "resourceVersion") if name in sent}
    return dict(old["metadata"]) | kept


NARROW: Final[Mapping[str, Callable[[Object, Object], Object]]] = {
    "finalize": _only("finalizers"),
    "resize": _only_resources,
    "ephemeralcontainers": _only("ephemeralContainers"),
}
"""Subresources that write a part of the object, whatever is sent."""
