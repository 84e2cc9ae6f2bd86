"""The four Ray kinds to and from YAML. Reading is strict: a misspelt field is an error, not lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from manta.api.codec import to_json
from manta.api.meta import SET_BY_SERVER, View
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import Resource
from manta.api.usage import InvalidValue, did_you_mean

Document = dict[str, Any]


class Manifest(View, frozen=True, kw_only=True):
    """Base of RayCluster, RayJob, RayService and RayCronJob."""

    @classmethod
    def resource(cls) -> Resource:
        """How the API server addresses this kind."""
        return next(one for one in RAY_RESOURCES if one.kind == cls.__name__)

    @classmethod
    def from_yaml(cls, text: str | bytes) -> Self:
        """Read one document. Raises InvalidValue, which names the field."""
        from manta.api.documents.limits import DocumentError
        from manta.api.documents.reader import read_yaml

        try:
            document = read_yaml(text)
        except DocumentError as error:
            raise InvalidValue(cls.__name__, text, f"not valid YAML: {error}") from error
        return cls.from_dict(document)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read a manifest as JSON values. Raises InvalidValue, which names the field."""
        from manta.api.ray.unknown_fields import unknown_fields

        if not isinstance(document, Mapping):
            raise InvalidValue(cls.__name__, document, "must be a mapping with kind and metadata")
        _check_type(document, cls.resource())
        plain = {**document, "metadata": _set_fields(document.get("metadata"))}
        for path, value, names in unknown_fields(plain, cls):
            known = did_you_mean(path.rpartition(".")[2], names)
            raise InvalidValue(path, value, f"{cls.__name__} has no such field{known}")
        try:
            return msgspec.json.decode(msgspec.json.encode(plain), type=cls)
        except msgspec.ValidationError as error:
            raise _invalid(error, plain) from None

    def to_dict(self) -> Document:
        """The manifest as JSON values, without status and without what the server sets."""
        resource = type(self).resource()
        return manifest_of(
            {"apiVersion": resource.api_version, "kind": resource.kind, **to_json(self)}
        )

    def to_yaml(self) -> str:
        """The manifest as YAML, as `kubectl apply -f` reads it."""
        from manta.api.documents.writer import to_yaml

        return to_yaml(self.to_dict())


def manifest_of(document: Mapping[str, Any]) -> Document:
    """A manifest that creates such an object again: no status, nothing that the server sets."""
    meta = {k: v for k, v in document["metadata"].items() if k not in SET_BY_SERVER}
    return {**{k: v for k, v in document.items() if k != "status"}, "metadata": meta}


def _check_type(document: Mapping[str, Any], resource: Resource) -> None:
    kind = document.get("kind", resource.kind)
    if kind != resource.kind:
        raise InvalidValue("kind", kind, f"must be {resource.kind}")
    version = document.get("apiVersion", resource.api_version)
    if version != resource.api_version:
        raise InvalidValue("apiVersion", version, f"must be {resource.api_version}")


def _set_fields(metadata: Any) -> Any:
    """The metadata without nulls (`creationTimestamp: null` of Go programs) and without its history."""
    if not isinstance(metadata, Mapping):
        return metadata or {}
    skipped = ("managedFields", "selfLink")
    return {k: v for k, v in metadata.items() if v is not None and k not in skipped}


def _invalid(error: msgspec.ValidationError, document: Mapping[str, Any]) -> InvalidValue:
    message, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").removeprefix(".")
    return InvalidValue(field, _value_at(document, field), message)


def _value_at(document: Any, path: str) -> Any:
    for part in path.replace("[", ".[").split("."):
        try:
            document = document[int(part[1:-1])] if part.startswith("[") else document[part]
        except (KeyError, IndexError, TypeError, ValueError):  # `[...]` is any key of a map
            return document
    return document
