"""Decoding of request bodies: JSON, YAML or protobuf in, a dict with checked metadata out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from manta.api.documents import reader
from manta.api.documents.limits import REQUEST, DocumentError
from manta.httpserver.messages import HttpRequest
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_kinds.go_values import json_type
from manta.localplane.apiserver.negotiation import body_format
from manta.localplane.apiserver.status_errors import StatusError, bad_request


class Malformed(Exception):  # noqa: N818 - the caller turns it into a 400
    """The bytes do not have the format of their content type."""


def read_body(body: bytes, content_type: str) -> Any:
    """The value of a body. Raises Malformed."""
    form = body_format(content_type)
    if form == "protobuf":
        try:
            value = _decode_protobuf(body)
            reader.check_depth(value, REQUEST)
        except (ValueError, RecursionError) as error:
            raise Malformed(str(error)) from None
        return value
    return read_json(body) if form == "json" else read_yaml(body)


def _decode_protobuf(body: bytes) -> Any:
    """Raises ValueError for a malformed body. Imported late: few clients send protobuf."""
    from manta.localplane.apiserver.protobuf.envelope import decode

    return decode(body)


def read_json(body: bytes) -> Any:
    """The value of a JSON body. Raises Malformed."""
    try:
        return reader.read_json(body, REQUEST)
    except DocumentError as error:
        raise Malformed(f"json parse error: {error}") from None


def read_yaml(body: bytes) -> Any:
    """The value of a YAML body. The last of duplicate keys wins (see `duplicate_fields`).

    Raises Malformed.
    """
    try:
        return reader.read_yaml(body, REQUEST, duplicates=[])
    except DocumentError as error:
        raise Malformed(f"error converting YAML to JSON: yaml: {error}") from None


def read_object(
    request: HttpRequest, resource: ApiResource, alias_version: str = ""
) -> dict[str, Any]:
    """The object in a create or update; it may have `alias_version`. Raises kube-apiserver's 400."""
    try:
        value = read_body(request.body, request.headers.get("content-type", ""))
    except Malformed as error:
        raise _unrecognized(resource.kind, error, request.body) from None
    if value is None and not resource.strategy.requires_type_meta:
        value = {}
    if not isinstance(value, dict):
        why = (
            f"json: cannot unmarshal {json_type(value)} into Go value of type struct {{ APIVersion "
            'string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise _unrecognized(resource.kind, Malformed(f"json parse error: {why}"), request.body)
    if alias_version and value.get("apiVersion") == alias_version:
        value["apiVersion"] = resource.api_version
    if resource.strategy.requires_type_meta:
        _check_type_meta(value, resource, request.body)
    resource.strategy.check_type(value)
    check_metadata(value, resource)
    return value


def _unrecognized(kind: str, error: Malformed, body: bytes) -> StatusError:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get "
        f"version/kind; {error} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """The first bytes of a body: as text if it may be JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    shown = body[:30]
    return (shown.decode(errors="replace") if body[:1] == b"{" else shown.hex()) + more


def _check_type_meta(value: dict[str, Any], resource: ApiResource, body: bytes) -> None:
    for member, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not value.get(member):
            text = body[:1000].decode(errors="replace")
            raise bad_request(
                f"the object provided is unrecognized (must be of type {resource.kind}): Object "
                f"'{shown}' is missing in '{text}' ({_summary(body)})"
            )


def escaped_json(value: Mapping[str, Any]) -> str:
    """JSON with its quotes escaped, as inside a Go string."""
    return json.dumps(json.dumps(value, separators=(",", ":")))[1:-1]


def not_registered(version: str, kind: str) -> str:
    return (
        f'no kind "{kind}" is registered for version "{version}" in scheme '
        '"pkg/runtime/scheme.go:111"'
    )


def version_mismatch(version: str, expected: str) -> StatusError:
    return bad_request(
        f"the API version in the data ({version}) does not match the expected API version "
        f"({expected})"
    )


_METADATA_TYPES: dict[str, tuple[type, str]] = {
    "name": (str, "string"),
    "namespace": (str, "string"),
    "generateName": (str, "string"),
    "resourceVersion": (str, "string"),
    "uid": (str, "types.UID"),
    "generation": (int, "int64"),
    "labels": (dict, "map[string]string"),
    "annotations": (dict, "map[string]string"),
    "finalizers": (list, "[]string"),
    "ownerReferences": (list, "[]v1.OwnerReference"),
    "managedFields": (list, "[]v1.ManagedFieldsEntry"),
}


def check_metadata(obj: dict[str, Any], resource: ApiResource) -> None:
    """Raise a 400 if a field of metadata has the wrong type. Removes nulls."""
    meta = obj.get("metadata")
    if meta is None:
        return
    if not isinstance(meta, dict):
        raise wrong_type(resource, meta, "metadata", "v1.ObjectMeta")
    for name, (wanted, shown) in _METADATA_TYPES.items():
        found = meta.get(name)
        if found is None:
            meta.pop(name, None)
            continue
        if not isinstance(found, wanted):
            raise wrong_type(resource, found, f"metadata.{name}", shown)
    _fill_empty(meta)
    for name, values, item, shown in (
        ("labels", (meta.get("labels") or {}).values(), str, "string"),
        ("annotations", (meta.get("annotations") or {}).values(), str, "string"),
        ("ownerReferences", meta.get("ownerReferences") or (), dict, "v1.OwnerReference"),
        ("finalizers", meta.get("finalizers") or (), str, "string"),
    ):
        for value in values:
            if not isinstance(value, item):
                raise wrong_type(resource, value, f"metadata.{name}", shown)


def _fill_empty(meta: dict[str, Any]) -> None:
    """A label or annotation that is null becomes empty."""
    for name in ("labels", "annotations"):
        if None in (meta.get(name) or {}).values():
            meta[name] = {key: "" if text is None else text for key, text in meta[name].items()}


def wrong_type(resource: ApiResource, found: Any, field: str, wanted: str) -> StatusError:
    owner, _, member = field.partition(".")
    if member:
        field = resource.strategy.metadata_path(member)
        owner = "ObjectMeta"
    else:
        owner = resource.kind
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: '
        f"cannot unmarshal {json_type(found)} into Go struct field {owner}.{field} of type "
        f"{wanted}"
    )


def duplicate_fields(request: HttpRequest, value: Any) -> list[str]:
    """The duplicate fields of a body, as the texts of warnings."""
    form = body_format(request.headers.get("content-type", ""))
    if form == "json":
        duplicates = reader.duplicate_members(request.body, value)
        return [f'duplicate field "{path}"' for path in duplicates]
    found: list[str] = []
    if form == "yaml":
        reader.read_yaml(request.body, REQUEST, duplicates=found)
    return found
