"""Revisions of a RayCluster: the part of its spec from which Pods are built.

A revision holds neither sizes (they belong to the user and the autoscaler) nor what is changed in place
(Services, Ingress, NetworkPolicies). Two specs are of one revision when they differ only in what queueing
systems add to templates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.names import SUFFIX_ALPHABET
from manta.api.ray.cluster import HeadGroupSpec, RayClusterSpec, WorkerGroupSpec
from manta.rules.spec_hash import without_queue_fields

Content = Mapping[str, Any]
"""The data of a ControllerRevision: fields of the spec, as written."""

_OF_CLUSTER: Final = (
    "ray_version",
    "enable_in_tree_autoscaling",
    "autoscaler_options",
    "auth_options",
    "gcs_fault_tolerance_options",
    "history_server_options",
    "tls_options",
)
_OF_HEAD: Final = ("template", "ray_start_params", "resources", "labels")
_OF_GROUP: Final = ("num_of_hosts", *_OF_HEAD)
_HASH_LENGTH: Final = 10

KEPT: Final = 10
"""Revisions that are kept, besides those of running Pods."""


def content(spec: RayClusterSpec) -> dict[str, Any]:
    """What a revision of this spec holds."""
    head = _fields(spec.head_group_spec, _OF_HEAD)
    groups = [
        {"groupName": one.group_name, **_fields(one, _OF_GROUP)} for one in spec.worker_group_specs
    ]
    own = _fields(spec, _OF_CLUSTER)
    return {"spec": {**own, "headGroupSpec": head, "workerGroupSpecs": groups}}


def _fields(struct: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
    """Fields that are not at their default, by their JSON name."""
    built = msgspec.to_builtins(struct)
    return {name: built[name] for name in _json_names(type(struct), names) if name in built}


def spec_in(data: Content) -> RayClusterSpec:
    """The spec that a revision holds, without sizes. Raises msgspec.ValidationError."""
    return msgspec.convert(data.get("spec") or {}, RayClusterSpec)


def is_same(one: RayClusterSpec, other: RayClusterSpec) -> bool:
    """Whether both are of one revision."""
    return _identity(one) == _identity(other)


def revision_name(cluster: str, spec: RayClusterSpec) -> str:
    """The name of the revision of this spec: equal for equal specs, so that none is recorded twice."""
    number = int.from_bytes(hashlib.sha256(_identity(spec)).digest()[:8], "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, at = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[at])
    return f"{cluster}-{''.join(letters)}"


def _identity(spec: RayClusterSpec) -> bytes:
    return msgspec.json.encode(content(without_queue_additions(spec)), order="sorted")


def without_queue_additions(spec: RayClusterSpec) -> RayClusterSpec:
    """The spec without what queueing systems add to its templates."""
    head, replace = spec.head_group_spec, msgspec.structs.replace
    groups = tuple(
        replace(one, template=without_queue_fields(one.template)) for one in spec.worker_group_specs
    )
    head = replace(head, template=without_queue_fields(head.template))
    return replace(spec, head_group_spec=head, worker_group_specs=groups)


# ── going back ───────────────────────────────────────────────────────────────────────────


def restored(spec: RayClusterSpec, data: Content) -> RayClusterSpec:
    """The spec with the content of a revision. Sizes, and which groups there are, stay as they are."""
    old, replace = spec_in(data), msgspec.structs.replace
    groups = {one.group_name: one for one in old.worker_group_specs}
    return replace(
        spec,
        **{name: getattr(old, name) for name in _OF_CLUSTER},
        head_group_spec=_with_head(spec.head_group_spec, old.head_group_spec),
        worker_group_specs=tuple(
            _with_group(one, groups.get(one.group_name)) for one in spec.worker_group_specs
        ),
    )


def undone(live: Mapping[str, Any], data: Content) -> dict[str, Any]:
    """As `restored`, for a spec as written: fields that this version does not know stay."""
    old: Mapping[str, Any] = data.get("spec") or {}
    groups = {one.get("groupName"): one for one in old.get("workerGroupSpecs") or ()}
    spec = _put_back(live, old, _json_names(RayClusterSpec, _OF_CLUSTER))
    head = _put_back(
        live.get("headGroupSpec") or {},
        old.get("headGroupSpec") or {},
        _json_names(HeadGroupSpec, _OF_HEAD),
    )
    fields = _json_names(WorkerGroupSpec, _OF_GROUP)
    workers = [
        _put_back(one, groups[one.get("groupName")], fields)
        if one.get("groupName") in groups
        else one
        for one in live.get("workerGroupSpecs") or ()
    ]
    return {**spec, "headGroupSpec": head, "workerGroupSpecs": workers}


def _put_back(
    live: Mapping[str, Any], old: Mapping[str, Any], fields: tuple[str, ...]
) -> dict[str, Any]:
    kept = {name: value for name, value in live.items() if name not in fields}
    return {**kept, **{name: old[name] for name in fields if name in old}}


def _json_names(struct: type[msgspec.Struct], fields: tuple[str, ...]) -> tuple[str, ...]:
    known = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    return tuple(known[name] for name in fields)


def _with_head(live: HeadGroupSpec, old: HeadGroupSpec) -> HeadGroupSpec:
    return msgspec.structs.replace(live, **{name: getattr(old, name) for name in _OF_HEAD})


def _with_group(live: WorkerGroupSpec, old: WorkerGroupSpec | None) -> WorkerGroupSpec:
    if old is None:
        return live
    return msgspec.structs.replace(live, **{name: getattr(old, name) for name in _OF_GROUP})


# ── what cannot be rolled ────────────────────────────────────────────────────────────────


def needs_recreate(before: RayClusterSpec, after: RayClusterSpec) -> tuple[str, ...]:
    """The changed fields for which head and workers must change at once, each with the reason."""
    old, new = content(before)["spec"], content(after)["spec"]
    changed = (field for field in AT_ONCE if _at(old, field) != _at(new, field))
    return tuple(f"{field} ({AT_ONCE[field]})" for field in changed)


AT_ONCE: Final = {
    "rayVersion": "workers of one Ray version cannot join a head of another",
    "authOptions": "workers and head must agree on authentication",
    "tlsOptions": "workers and head must agree on TLS",
    "gcsFaultToleranceOptions": "the tables of the GCS are not copied to another store",
    "headGroupSpec.rayStartParams.port": "workers find the head at this port",
}


def _at(spec: Mapping[str, Any], field: str) -> Any:
    value: Any = spec
    for part in field.split("."):
        value = (value or {}).get(part)
    return value
