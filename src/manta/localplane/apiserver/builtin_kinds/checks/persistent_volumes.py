"""PersistentVolumes."""

from __future__ import annotations

import posixpath

from manta.api.quantity import Quantity
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json, json_diff
from manta.localplane.apiserver.builtin_kinds.checks.volumes import (
    check_volume_source,
    no_parent_steps,
)
from manta.localplane.apiserver.schema.causes import forbidden, invalid, not_supported, required

_SOURCES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_REQUIRED = {"local": ("path",), "nfs": ("server", "path"), "csi": ("driver", "volumeHandle")}
_POLICIES = ("Delete", "Recycle", "Retain")
_MODES = ("Block", "Filesystem")


def check_persistent_volume(volume: Json, old: Json | None) -> Causes:
    spec = volume.get("spec") or {}
    yield from _check_access(spec.get("accessModes") or [])
    yield from _check_capacity(spec.get("capacity") or {})
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy and policy not in _POLICIES:
        yield not_supported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES)
    yield from _check_affinity(spec.get("nodeAffinity"))
    yield from _check_sources(spec)
    host = (spec.get("hostPath") or {}).get("path", "")
    if host and posixpath.normpath(host) == "/" and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden("spec.persistentVolumeReclaimPolicy", detail)
    if spec.get("storageClassName"):
        yield from rules.subdomain("spec.storageClassName", spec["storageClassName"])
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _MODES:
        yield not_supported("spec.volumeMode", mode, _MODES)
    if old is not None:
        yield from _check_change(spec, old.get("spec") or {})


def _check_access(modes: list[str]) -> Causes:
    if not modes:
        yield required("spec.accessModes")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, ACCESS_MODES)
    known = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield forbidden("spec.accessModes", detail)


def _check_capacity(capacity: Json) -> Causes:
    if not capacity:
        yield required("spec.capacity")
    if set(capacity) != {"storage"}:
        yield not_supported("spec.capacity", dict(capacity) or None, ("storage",))
    for name, amount in capacity.items():
        if Quantity.parse(amount).nano <= 0:
            yield invalid(f"spec.capacity[{name}]", amount, "must be greater than zero")


def _check_affinity(affinity: Json | None) -> Causes:
    if affinity is None:
        return
    field = "spec.nodeAffinity.required"
    if affinity.get("required") is None:
        yield required(field, "must specify required node constraints")
    elif not affinity["required"].get("nodeSelectorTerms"):
        detail = "must have at least one node selector term"
        yield required(f"{field}.nodeSelectorTerms", detail)


def _check_sources(spec: Json) -> Causes:
    given = [name for name in _SOURCES if spec.get(name) is not None]
    for name in given[1:]:
        yield forbidden(f"spec.{name}", "may not specify more than 1 volume type")
    if not given:
        yield required("spec", "must specify a volume type")
        return
    first = given[0]
    yield from _check_source(first, spec[first], f"spec.{first}")
    if first == "local" and spec.get("nodeAffinity") is None:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")


def _check_source(kind: str, source: Json, field: str) -> Causes:
    if kind == "hostPath":
        yield from check_volume_source(kind, source, field)
        return
    for member in _REQUIRED.get(kind, ()):
        if not source.get(member):
            yield required(f"{field}.{member}")
    path = source.get("path", "")
    if kind == "local":
        yield from no_parent_steps(f"{field}.path", path)
    elif kind == "nfs" and not path.startswith("/"):
        yield invalid(f"{field}.path", path, "must be an absolute path")


def _check_change(spec: Json, old: Json) -> Causes:
    new, before = ({name: one[name] for name in _SOURCES if name in one} for one in (spec, old))
    if new != before:
        detail = "spec.persistentvolumesource is immutable after creation"
        yield forbidden("spec.persistentvolumesource", f"{detail}\n{json_diff(before, new)}")
    yield from rules.immutable("volumeMode", spec.get("volumeMode"), old.get("volumeMode"))
    if old.get("nodeAffinity") is not None:
        yield from rules.immutable("nodeAffinity", spec.get("nodeAffinity"), old["nodeAffinity"])
