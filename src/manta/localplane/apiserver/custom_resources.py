"""CustomResourceDefinitions: checked, established at once, and turned into served resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from manta.api.names import dns1035_label_errors
from manta.localplane.apiserver.schema.causes import Cause, invalid
from manta.localplane.apiserver.schema.compiled import CompiledSchema, compile_schema
from manta.localplane.apiserver.schema.structural import check_structural
from manta.localplane.apiserver.served import (
    Column,
    CustomVersion,
    ScalePaths,
    Served,
    Subresource,
)

CR_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

_AGE = Column(
    "Age",
    "date",
    ".metadata.creationTimestamp",
    description=(
        "CreationTimestamp is a timestamp representing the server time when this object was "
        "created. It is not guaranteed to be set in happens-before order across separate "
        "operations. Clients may not set this value. It is represented in RFC3339 form and is in "
        "UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
)


class Schemas:
    """Compiled schemas by content: a CRD that is written again costs nothing new."""

    def __init__(self) -> None:
        self._compiled: dict[int, CompiledSchema] = {}

    def get(self, openapi: Mapping[str, Any]) -> tuple[int, CompiledSchema]:
        digest = blake2b(msgspec.json.encode(openapi), digest_size=7).digest()
        epoch = int.from_bytes(digest) or 1
        if epoch not in self._compiled:
            self._compiled[epoch] = compile_schema(openapi)
        return epoch, self._compiled[epoch]

    def keep_only(self, epochs: set[int]) -> None:
        for epoch in set(self._compiled) - epochs:
            del self._compiled[epoch]


def with_defaults(crd: dict[str, Any]) -> dict[str, Any]:
    """The CRD with the names and settings that may be left out."""
    spec = dict(crd.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec["names"] = names
    conversion = dict(spec.get("conversion") or {})
    conversion.setdefault("strategy", "None")
    spec["conversion"] = conversion
    return crd | {"spec": spec}


def check(crd: Mapping[str, Any]) -> list[Cause]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    causes = [
        Cause("FieldValueRequired", "Required value", f"spec.{path}")
        for path, value in (
            ("group", spec.get("group")),
            ("scope", spec.get("scope")),
            ("names.plural", names.get("plural")),
            ("names.kind", names.get("kind")),
            ("names.singular", names.get("singular")),
            ("names.listKind", names.get("listKind")),
        )
        if not value
    ]
    causes += _name_causes(names)
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    name = crd["metadata"].get("name", "")
    if name != wanted:
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes.insert(0, Cause("FieldValueInvalid", message, "metadata.name"))
    if spec.get("scope") not in ("Cluster", "Namespaced", None, ""):
        message = f'Unsupported value: "{spec["scope"]}": supported values: "Cluster", "Namespaced"'
        causes.append(Cause("FieldValueNotSupported", message, "spec.scope"))
    stored = list((crd.get("status") or {}).get("storedVersions") or ())
    return causes + list(_version_causes(spec.get("versions") or [], stored))


def _name_causes(names: Mapping[str, Any]) -> Iterator[Cause]:
    for member in ("plural", "singular"):
        for error in dns1035_label_errors(names.get(member) or "x"):
            yield invalid(f"spec.names.{member}", names[member], error)
    for member in ("kind", "listKind"):
        for error in dns1035_label_errors((names.get(member) or "x").lower()):
            wish = f"may have mixed case, but should otherwise match: {error}"
            yield invalid(f"spec.names.{member}", names[member], wish)
    for number, name in enumerate(names.get("shortNames") or ()):
        for error in dns1035_label_errors(name):
            yield invalid(f"spec.names.shortNames[{number}]", name, error)


def _stored_causes(versions: list[dict[str, Any]], stored: list[str]) -> Iterator[Cause]:
    """One version is the stored one, and the status knows it."""
    storage = [str(version.get("name")) for version in versions if version.get("storage")]
    if len(storage) != 1:
        wish = "must have exactly one version marked as storage version"
        yield _of_versions(versions, wish)
    known = list(dict.fromkeys([*stored, *storage[:1]]))
    if not known:
        yield invalid("status.storedVersions", None, "must have at least one stored version")
    elif storage and storage[-1] not in known:
        wish = f"must have the storage version {storage[-1]}"
        yield invalid("status.storedVersions", known, wish)


def _of_versions(versions: list[dict[str, Any]], wish: str) -> Cause:
    """The real server shows its own, internal form of versions here."""
    shown = [
        {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for version in versions
    ]
    text = msgspec.json.encode(shown).decode()
    return Cause("FieldValueInvalid", f"Invalid value: {text}: {wish}", "spec.versions")


def _version_causes(versions: list[dict[str, Any]], stored: list[str]) -> Iterator[Cause]:
    yield from _stored_causes(versions, stored)
    if len({version.get("name") for version in versions}) < len(versions):
        yield _of_versions(versions, "must contain unique version names")
    single = len(versions) == 1
    for number, version in enumerate(versions):
        for error in dns1035_label_errors(str(version.get("name") or "")):
            places = ("spec.version", "spec.versions[0].name")
            for place in places if number == 0 else (f"spec.versions[{number}].name",):
                yield invalid(place, version.get("name") or "", error)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        place = "spec.validation" if single else f"spec.versions[{number}].schema"
        if schema is None:
            field = f"spec.versions[{number}].schema.openAPIV3Schema"
            yield Cause("FieldValueRequired", "Required value", field)
        else:
            yield from check_structural(schema, f"{place}.openAPIV3Schema")


def established(crd: dict[str, Any], now: str) -> dict[str, Any]:
    """The CRD with the status that its controller would write: accepted and established."""
    status = dict(crd.get("status") or {})
    before = {one.get("type"): one for one in status.get("conditions") or ()}
    fresh = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition(
            "Established", "InitialNamesAccepted", "the initial names have been accepted", now
        ),
    ]
    conditions = [before.pop(one["type"], one) for one in fresh] + list(before.values())
    stored = list(status.get("storedVersions") or ())
    storage = next(
        (one["name"] for one in crd["spec"].get("versions") or () if one.get("storage")), None
    )
    if storage and storage not in stored:
        stored.append(storage)
    status |= {
        "conditions": conditions,
        "acceptedNames": crd["spec"]["names"],
        "storedVersions": stored,
    }
    return crd | {"status": status}


def terminating(crd: dict[str, Any], now: str) -> dict[str, Any]:
    status = dict(crd.get("status") or {})
    kept = [one for one in status.get("conditions") or () if one.get("type") != "Terminating"]
    status["conditions"] = [
        *kept,
        _condition(
            "Terminating",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
            now,
        ),
    ]
    return crd | {"status": status}


def _condition(kind: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


# ── from definition to served resources ──────────────────────────────────────────────────
def served_versions(raw: bytes, schemas: Schemas) -> tuple[Served, ...]:
    """From a stored definition. Its JSON is kept and not what is decoded from it."""
    spec = msgspec.json.decode(raw)["spec"]
    return tuple(
        _served(spec, version, schemas, raw)
        for version in spec.get("versions") or ()
        if version.get("served")
    )


def _read_schema(raw: bytes, version: str) -> Mapping[str, Any]:
    for one in msgspec.json.decode(raw)["spec"]["versions"]:
        if one["name"] == version:
            return (one.get("schema") or {}).get("openAPIV3Schema") or {}
    return {}


def _served(
    spec: Mapping[str, Any], version: Mapping[str, Any], schemas: Schemas, raw: bytes
) -> Served:
    names = spec["names"]
    openapi = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    epoch, schema = schemas.get(openapi)
    subresources = version.get("subresources") or {}
    scale = _scale_paths(subresources.get("scale"))
    offered = []
    if "status" in subresources:
        offered.append(Subresource("status", names["kind"]))
    if scale is not None:
        offered.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
    return Served(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=CR_VERBS,
        subresources=tuple(offered),
        generation=True,
        fields=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        custom=CustomVersion(
            schema=schema,
            openapi=partial(_read_schema, raw, version["name"]),
            columns=_columns(version.get("additionalPrinterColumns")),
            scale=scale,
            storage=bool(version.get("storage")),
            epoch=epoch,
            warning=_warning(spec, version),
        ),
    )


def _warning(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _columns(given: list[dict[str, Any]] | None) -> tuple[Column, ...]:
    if not given:
        return (_AGE,)
    return tuple(
        Column(
            one["name"],
            one.get("type", "string"),
            one.get("jsonPath", ""),
            one.get("format", ""),
            one.get("description")
            or f"Custom resource definition column (in JSONPath format): {one.get('jsonPath')}",
            int(one.get("priority") or 0),
        )
        for one in given
    )


def _scale_paths(scale: Mapping[str, Any] | None) -> ScalePaths | None:
    if not scale:
        return None

    def parts(path: str | None) -> tuple[str, ...]:
        return tuple(part for part in (path or "").split(".") if part)

    return ScalePaths(
        parts(scale.get("specReplicasPath")),
        parts(scale.get("statusReplicasPath")),
        parts(scale.get("labelSelectorPath")),
    )
