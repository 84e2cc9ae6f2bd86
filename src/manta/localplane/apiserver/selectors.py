"""Matches the selectors of a request against stored records.

Field selectors support a few fields per resource. A decoder made for these fields reads them from the
raw JSON, without decoding whole objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from manta.api.selectors import (
    EVERYTHING,
    FieldSelector,
    LabelSelector,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.events import ALL_EVENT_FIELDS
from manta.localplane.apiserver.status_errors import bad_request
from manta.localplane.store.objects import Record

FieldsReader = Callable[[bytes], Mapping[str, str]]

_ALL_FIELDS = FieldSelector()
_DEFAULTS = {"spec.hostNetwork": "false", "spec.unschedulable": "false"}
"""Values of absent fields."""
_parse_labels = lru_cache(maxsize=512)(parse_label_selector)
_parse_fields = lru_cache(maxsize=512)(parse_field_selector)


@dataclass(frozen=True, slots=True)
class Selection:
    """Namespace, labels and fields that a request selects."""

    namespace: str = ""
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = _ALL_FIELDS
    reader: FieldsReader | None = None

    @property
    def everything(self) -> bool:
        return self.labels.empty and not self.fields.requirements

    @property
    def name(self) -> str:
        """The name in the field selector; '' if there is none."""
        return self.fields.exact("metadata.name") or ""

    def matches(self, record: Record) -> bool:
        if self.namespace and not record.key.startswith(f"{self.namespace}/"):
            return False
        if not self.labels.empty and not self.labels.matches(record.labels):
            return False
        return not self.fields.requirements or self.fields.matches(self._fields(record))

    def _fields(self, record: Record) -> Mapping[str, str]:
        named = {"metadata.name": record.name, "metadata.namespace": record.namespace}
        if self.reader is None:
            return named
        if record.fields is None:
            record.fields = named | dict(self.reader(record.raw))
        return record.fields


def select(resource: ApiResource, namespace: str, labels: str, fields: str) -> Selection:
    """Raises StatusError (400) for an invalid selector or an unsupported field."""
    try:
        wanted_labels = _parse_labels(labels) if labels else EVERYTHING
        wanted_fields = _parse_fields(fields) if fields else _ALL_FIELDS
    except SelectorError as error:
        raise bad_request(str(error)) from None
    for requirement in wanted_fields.requirements:
        _check_known(resource, requirement.path)
    reader = None
    if resource.fields and wanted_fields.requirements:
        # Both groups of Events share the records, and the field values cached there.
        names = ALL_EVENT_FIELDS if resource.storage_name == "events" else resource.fields
        reader = fields_reader(names)
    return Selection(namespace, wanted_labels, wanted_fields, reader)


def _check_known(resource: ApiResource, name: str) -> None:
    if name in ("metadata.name", "metadata.namespace") or name in resource.fields:
        return
    if resource.fields:
        raise bad_request(f"field label not supported: {name}")
    raise bad_request(resource.strategy.unknown_field_label(name))


@lru_cache(maxsize=128)
def fields_reader(names: tuple[str, ...]) -> FieldsReader:
    """Return a function that reads these fields from raw JSON; '' for absent ones."""
    places = {name: _stored_at(name).split(".") for name in names}
    tree: dict[str, Any] = {}
    for parts in places.values():
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part, {})
        node[parts[-1]] = None
    decode = msgspec.json.Decoder(_struct(tree)).decode

    def read(raw: bytes) -> Mapping[str, str]:
        decoded = decode(raw)
        return {
            name: _text(decoded, parts) or _DEFAULTS.get(name, "") for name, parts in places.items()
        }

    return read


def _stored_at(name: str) -> str:
    """Return the path in the stored form; Events are stored as core/v1."""
    if name == "source":
        return "source.component"
    if name == "reportingController":
        return "reportingComponent"
    return name.replace("regarding.", "involvedObject.")


def _struct(tree: dict[str, Any]) -> type[msgspec.Struct]:
    """Return a type that decodes this tree; its `places` maps JSON members to attributes."""
    names = {member: f"f{number}" for number, member in enumerate(tree)}
    fields: list[tuple[str, Any, Any]] = [
        (names[member], Any if below is None else _struct(below) | None, None)
        for member, below in tree.items()
    ]
    rename = {attribute: member for member, attribute in names.items()}
    return msgspec.defstruct("Chosen", fields, rename=rename, namespace={"places": names})


def _text(decoded: Any, parts: list[str]) -> str:
    for part in parts:
        if decoded is None:
            return ""
        decoded = getattr(decoded, type(decoded).places[part])
    if decoded is None:
        return ""
    if isinstance(decoded, bool):
        return "true" if decoded else "false"
    return decoded if isinstance(decoded, str) else str(decoded)
