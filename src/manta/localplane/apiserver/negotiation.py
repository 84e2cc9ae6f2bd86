"""Content negotiation: reads `Accept` and `Content-Type`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from manta.localplane.apiserver.status_errors import (
    not_acceptable,
    not_watchable,
    unsupported_media_type,
)

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class Answer:
    """The format of a response. `shape` is '', 'Table', 'PartialObjectMetadata' or its list."""

    shape: str = ""
    version: str = "v1"
    yaml: bool = False

    @property
    def plain(self) -> bool:
        return not self.shape and not self.yaml


PLAIN = Answer()
_YAML_TYPES = (YAML, "text/yaml", "application/x-yaml")
_SHAPES = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


@lru_cache(maxsize=256)
def negotiate(accept: str, *, many: bool = False, watch: bool = False) -> Answer:
    """Return the preferred format that the server has. Raises StatusError (406).

    Protobuf is skipped: clients that send it accept JSON too.
    """
    if not accept:
        return PLAIN
    accepted = _media_types(accept)
    for media, params in accepted:
        found = _answer_for(media, params)
        if found is not None and watch and found.yaml:
            raise not_watchable()
        if found is not None:
            return found
    raise not_acceptable(many=many, shape=any(media == JSON for media, _ in accepted))


def _answer_for(media: str, params: dict[str, str]) -> Answer | None:
    if media in ("*/*", JSON):
        shape = params.get("as", "")
        if not shape:
            return PLAIN
        known = params.get("g") == "meta.k8s.io" and params.get("v") in ("v1", "v1beta1")
        if shape in _SHAPES and known:
            return Answer(shape, params["v"])
        return None
    if media in _YAML_TYPES:
        return Answer(yaml=True) if "as" not in params else None
    return None


@lru_cache(maxsize=256)
def wants_aggregated_discovery(accept: str) -> str:
    """Return the requested version of aggregated discovery; '' for unaggregated discovery."""
    for media, params in _media_types(accept):
        if media == JSON and params.get("as") == "APIGroupDiscoveryList":
            if params.get("v") in ("v2", "v2beta1"):
                return params["v"]
        elif media in (JSON, "*/*"):
            return ""
    return ""


def body_format(content_type: str) -> str:
    """Return 'json', 'yaml' or 'protobuf'; no type means JSON. Raises StatusError (415)."""
    media = content_type.partition(";")[0].strip().lower()
    if media in ("", JSON):
        return "json"
    if media in _YAML_TYPES:
        return "yaml"
    if media == PROTOBUF:
        return "protobuf"
    raise unsupported_media_type((JSON, YAML, PROTOBUF))


def _media_types(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return media types and their parameters, by `q` and then in the given order."""
    accepted: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *raw = (part.strip() for part in clause.split(";"))
        params = dict(part.partition("=")[::2] for part in raw if "=" in part)
        try:
            quality = float(params.get("q", "1"))
        except ValueError:
            quality = 1.0
        accepted.append((quality, media.lower(), params))
    accepted.sort(key=lambda one: -one[0])
    return [(media, params) for quality, media, params in accepted if quality > 0]
