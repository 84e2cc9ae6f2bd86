"""A request body becomes an object: JSON, YAML or protobuf in, a checked dict out."""

from __future__ import annotations

import json
from typing import Any

from manta.api.documents import reader
from manta.api.documents.limits import REQUEST, DocumentError
from manta.localplane.apiserver import machinery
from manta.localplane.apiserver.builtin_kinds.messages import message_of
from manta.localplane.apiserver.messages import HttpRequest
from manta.localplane.apiserver.negotiation import body_format
from manta.localplane.apiserver.schema.causes import Cause
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import (
    Refusal,
    bad_request,
    invalid,
    invalid_patch,
)


class Malformed(Exception):  # noqa: N818 - becomes a 400 whose words the caller knows
    """The bytes are not what their content type says."""


def read_body(body: bytes, content_type: str) -> Any:
    """The value in a body, whatever it is. Raises Malformed."""
    form = body_format(content_type)
    if form == "protobuf":
        try:
            value = machinery.decode_protobuf(body)
            reader.check_depth(value, REQUEST)
        except (ValueError, RecursionError) as error:
            raise Malformed(str(error)) from None
        return value
    return read_json(body) if form == "json" else read_yaml(body)


def read_json(body: bytes) -> Any:
    try:
        return reader.read_json(body, REQUEST)
    except DocumentError as error:
        raise Malformed(f"json parse error: {error}") from None


def read_yaml(body: bytes) -> Any:
    """Of a key that is given twice the last: `duplicate_fields` finds them."""
    try:
        return reader.read_yaml(body, REQUEST, duplicates=[])
    except DocumentError as error:
        raise Malformed(f"error converting YAML to JSON: yaml: {error}") from None


def read_object(request: HttpRequest, served: Served, earlier_version: str = "") -> dict[str, Any]:
    """The object of a create or update. Raises the 400s that the real server raises."""
    try:
        value = read_body(request.body, request.headers.get("content-type", ""))
    except Malformed as error:
        raise _unrecognized(served.kind, error, request.body) from None
    if value is None and served.custom is None:
        value = {}
    if not isinstance(value, dict):
        why = (
            f"json: cannot unmarshal {json_type(value)} into Go value of type struct {{ APIVersion "
            'string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise _unrecognized(served.kind, Malformed(f"json parse error: {why}"), request.body)
    if earlier_version and value.get("apiVersion") == earlier_version:
        value["apiVersion"] = served.api_version
    _check_named(value, served, request.body)
    check_type(value, served)
    check_metadata(value, served)
    return value


def _unrecognized(kind: str, error: Malformed, body: bytes) -> Refusal:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get "
        f"version/kind; {error} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """The beginning of a body: as text where it may be JSON, in hexadecimal otherwise."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    shown = body[:30]
    return (shown.decode(errors="replace") if body[:1] == b"{" else shown.hex()) + more


def _check_named(value: dict[str, Any], served: Served, body: bytes) -> None:
    """Only built-in kinds may leave out what they are: their path says it."""
    if served.custom is None:
        return
    for member, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not value.get(member):
            text = body[:1000].decode(errors="replace")
            raise bad_request(
                f"the object provided is unrecognized (must be of type {served.kind}): Object "
                f"'{shown}' is missing in '{text}' ({_summary(body)})"
            )


def check_type(value: dict[str, Any], served: Served) -> None:
    """What an object says that it is must be what is served at its path."""
    kind = str(value.get("kind") or served.kind)
    version = str(value.get("apiVersion") or served.api_version)
    if (version, kind) == (served.api_version, served.kind):
        return
    if served.custom is None and message_of(version, kind) is None:
        short = version.rpartition("/")[2]
        raise bad_request(
            f'{kind} in version "{short}" cannot be handled as a {served.kind}: '
            f"{unregistered(version, kind)}"
        )
    if version != served.api_version:
        refusal = bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({served.api_version})"
        )
        if served.custom is not None:  # of a version that is not served, no field is known
            refusal.unknown = sorted(value.keys() - {"apiVersion", "kind", "metadata"})
        raise refusal
    if served.custom is not None:
        raise _other_kind(value, served)
    raise bad_request(
        f'{kind} in version "{served.version}" cannot be handled as a {served.kind}: '
        f"{_unconvertible(kind, served)}"
    )


def check_patched_type(new: dict[str, Any], served: Served) -> None:
    """A patch may change everything but what the object is."""
    said = str(new.get("kind") or served.kind), str(new.get("apiVersion") or served.api_version)
    kind, version = said
    if (version, kind) == (served.api_version, served.kind) and served.custom is None:
        return
    if served.custom is not None:
        if (new.get("apiVersion"), new.get("kind")) == (served.api_version, served.kind):
            return
        raise _other_kind(new, served)
    known = message_of(version, kind) is not None
    why = _unconvertible(kind, served) if known else unregistered(version, kind)
    raise invalid_patch(why, quoted(new))


def unpatchable(refusal: Refusal, shown: str, served: Served) -> Refusal:
    """What a patch has made cannot be read: said as the real server says it."""
    why = refusal.message.partition(f"cannot be handled as a {served.kind}: ")[2]
    if refusal.code != 400 or not why or served.custom is not None:
        return refusal
    return invalid_patch(why, shown)


def quoted(value: dict[str, Any]) -> str:
    return json.dumps(json.dumps(value, separators=(",", ":")))[1:-1]


def unregistered(version: str, kind: str) -> str:
    return (
        f'no kind "{kind}" is registered for version "{version}" in scheme '
        '"pkg/runtime/scheme.go:111"'
    )


def _unconvertible(kind: str, served: Served) -> str:
    group = served.group.partition(".")[0] or "core"
    return f"converting ({served.version}.{kind}) to ({group}.{served.kind}): unknown conversion"


def _other_kind(value: dict[str, Any], served: Served) -> Refusal:
    kind, version = str(value.get("kind")), str(value.get("apiVersion"))
    causes = []
    if version != served.api_version:
        message = f'Invalid value: "{version}": must be {served.api_version}'
        causes.append(Cause("FieldValueInvalid", message, "apiVersion"))
    if kind != served.kind:
        message = f'Invalid value: "{kind}": must be {served.kind}'
        causes.append(Cause("FieldValueInvalid", message, "kind"))
    meta = value.get("metadata")
    name = str(meta.get("name") or "") if isinstance(meta, dict) else ""
    return invalid(kind, version.rpartition("/")[0], name, causes)


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


def check_metadata(obj: dict[str, Any], served: Served) -> None:
    """Metadata of every kind has known types; whatever comes after may rely on them."""
    meta = obj.get("metadata")
    if meta is None:
        return
    if not isinstance(meta, dict):
        raise wrong_type(served, meta, "metadata", "v1.ObjectMeta")
    for name, (wanted, shown) in _METADATA_TYPES.items():
        found = meta.get(name)
        if found is None:
            meta.pop(name, None)
            continue
        if not isinstance(found, wanted):
            raise wrong_type(served, found, f"metadata.{name}", shown)
    _fill_empty(meta)
    for name, values, item, shown in (
        ("labels", (meta.get("labels") or {}).values(), str, "string"),
        ("annotations", (meta.get("annotations") or {}).values(), str, "string"),
        ("ownerReferences", meta.get("ownerReferences") or (), dict, "v1.OwnerReference"),
        ("finalizers", meta.get("finalizers") or (), str, "string"),
    ):
        for value in values:
            if not isinstance(value, item):
                raise wrong_type(served, value, f"metadata.{name}", shown)


def _fill_empty(meta: dict[str, Any]) -> None:
    """A label or an annotation without a value has an empty one."""
    for name in ("labels", "annotations"):
        if None in (meta.get(name) or {}).values():
            meta[name] = {key: "" if text is None else text for key, text in meta[name].items()}


def wrong_type(served: Served, found: Any, field: str, wanted: str) -> Refusal:
    owner, _, member = field.partition(".")
    if member:
        field = field if served.custom is None else member
        owner = "ObjectMeta"
    else:
        owner = served.kind
    return bad_request(
        f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: json: '
        f"cannot unmarshal {json_type(found)} into Go struct field {owner}.{field} of type "
        f"{wanted}"
    )


def json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case None:
            return "null"
        case _:
            return "object"


def duplicate_fields(request: HttpRequest, value: Any) -> list[str]:
    """What a body gives twice, one sentence each; its value is the last of them."""
    form = body_format(request.headers.get("content-type", ""))
    if form == "json":
        doubled = reader.duplicate_members(request.body, value)
        return [f'duplicate field "{path}"' for path in doubled]
    found: list[str] = []
    if form == "yaml":
        reader.read_yaml(request.body, REQUEST, duplicates=found)
    return found
