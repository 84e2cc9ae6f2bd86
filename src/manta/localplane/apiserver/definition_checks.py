"""The validation of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from manta.api.names import dns1035_label_errors
from manta.localplane.apiserver.schema.causes import Cause, invalid, not_supported, required
from manta.localplane.apiserver.schema.structural import check_structural


def check_definition(crd: Mapping[str, Any]) -> list[Cause]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    causes = [
        required(f"spec.{path}")
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
        detail = 'must be spec.names.plural+"."+spec.group'
        causes.insert(0, invalid("metadata.name", name, detail))
    if spec.get("scope") not in ("Cluster", "Namespaced", None, ""):
        causes.append(not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    stored = list((crd.get("status") or {}).get("storedVersions") or ())
    return causes + list(_version_causes(spec.get("versions") or [], stored))


def _name_causes(names: Mapping[str, Any]) -> Iterator[Cause]:
    for member in ("plural", "singular"):
        for error in dns1035_label_errors(names.get(member) or "x"):
            yield invalid(f"spec.names.{member}", names[member], error)
    for member in ("kind", "listKind"):
        for error in dns1035_label_errors((names.get(member) or "x").lower()):
            detail = f"may have mixed case, but should otherwise match: {error}"
            yield invalid(f"spec.names.{member}", names[member], detail)
    for number, name in enumerate(names.get("shortNames") or ()):
        for error in dns1035_label_errors(name):
            yield invalid(f"spec.names.shortNames[{number}]", name, error)


def _stored_causes(versions: list[dict[str, Any]], stored: list[str]) -> Iterator[Cause]:
    """Exactly one version is the storage version, and the status lists it."""
    storage = [str(version.get("name")) for version in versions if version.get("storage")]
    if len(storage) != 1:
        detail = "must have exactly one version marked as storage version"
        yield _of_versions(versions, detail)
    known = list(dict.fromkeys([*stored, *storage[:1]]))
    if not known:
        yield invalid("status.storedVersions", None, "must have at least one stored version")
    elif storage and storage[-1] not in known:
        detail = f"must have the storage version {storage[-1]}"
        yield invalid("status.storedVersions", known, detail)


def _of_versions(versions: list[dict[str, Any]], detail: str) -> Cause:
    """kube-apiserver shows its internal form of versions here."""
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
    return Cause("FieldValueInvalid", f"Invalid value: {text}: {detail}", "spec.versions")


def _version_causes(versions: list[dict[str, Any]], stored: list[str]) -> Iterator[Cause]:
    yield from _stored_causes(versions, stored)
    if len({version.get("name") for version in versions}) < len(versions):
        yield _of_versions(versions, "must contain unique version names")
    single = len(versions) == 1
    for number, version in enumerate(versions):
        for error in dns1035_label_errors(str(version.get("name") or "")):
            paths = ("spec.version", "spec.versions[0].name")
            for path in paths if number == 0 else (f"spec.versions[{number}].name",):
                yield invalid(path, version.get("name") or "", error)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        path = "spec.validation" if single else f"spec.versions[{number}].schema"
        if schema is None:
            yield required(f"spec.versions[{number}].schema.openAPIV3Schema")
        else:
            yield from check_structural(schema, f"{path}.openAPIV3Schema")
