"""The API resources that a CustomResourceDefinition defines, one for each served version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from manta.localplane.apiserver.api_resources import ApiResource, Subresource
from manta.localplane.apiserver.schema.compiled import CompiledSchema, compile_schema
from manta.localplane.apiserver.strategies.base import GroupVersionKind, ScalePaths
from manta.localplane.apiserver.strategies.custom import CustomStrategy
from manta.localplane.apiserver.tables.custom import Column, custom_table

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
    """Compiled schemas by content: a CRD that is written again is not compiled again."""

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


def defined_resources(raw: bytes, schemas: Schemas) -> tuple[ApiResource, ...]:
    """The resources of a stored definition. They keep its JSON instead of the larger decoded form."""
    spec = msgspec.json.decode(raw)["spec"]
    return tuple(
        _resource(spec, version, schemas, raw)
        for version in spec.get("versions") or ()
        if version.get("served")
    )


def _read_schema(raw: bytes, version: str) -> Mapping[str, Any]:
    for one in msgspec.json.decode(raw)["spec"]["versions"]:
        if one["name"] == version:
            return (one.get("schema") or {}).get("openAPIV3Schema") or {}
    return {}


def _resource(
    spec: Mapping[str, Any], version: Mapping[str, Any], schemas: Schemas, raw: bytes
) -> ApiResource:
    group, names = spec["group"], spec["names"]
    strategy = _strategy(spec, version, schemas, raw)
    subresources = []
    if strategy.has_status:
        subresources.append(Subresource("status", names["kind"]))
    if strategy.scale is not None:
        subresources.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
    return ApiResource(
        group=group,
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=CR_VERBS,
        subresources=tuple(subresources),
        generation=True,
        fields=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        warning=_warning(spec, version),
        strategy=strategy,
    )


def _strategy(
    spec: Mapping[str, Any], version: Mapping[str, Any], schemas: Schemas, raw: bytes
) -> CustomStrategy:
    epoch, schema = schemas.get((version.get("schema") or {}).get("openAPIV3Schema") or {})
    subresources = version.get("subresources") or {}
    return CustomStrategy(
        gvk=GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"]),
        definition=f"{spec['names']['plural']}.{spec['group']}",
        schema=schema,
        read_openapi=partial(_read_schema, raw, version["name"]),
        table=custom_table(_columns(version.get("additionalPrinterColumns"))),
        scale=_scale_paths(subresources.get("scale")),
        has_status="status" in subresources,
        is_storage_version=bool(version.get("storage")),
        epoch=epoch,
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
