"""What a client wants to read and what it has sent: `Accept` and `Content-Type`, read."""

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
    """How to answer. `shape` is '', 'Table', 'PartialObjectMetadata' or its list."""

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
    """The first wish that can be met. Protobuf answers are never given: JSON always follows."""
    if not accept:
        return PLAIN
    wishes = _media_types(accept)
    for media, params in wishes:
        found = _meet(media, params)
        if found is not None and watch and found.yaml:
            raise not_watchable()
        if found is not None:
            return found
    raise not_acceptable(many=many, shape=any(media == JSON for media, _ in wishes))


def _meet(media: str, params: dict[str, str]) -> Answer | None:
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
    """The version of the aggregated discovery that is asked for, or '' for the old documents."""
    for media, params in _media_types(accept):
        if media == JSON and params.get("as") == "APIGroupDiscoveryList":
            if params.get("v") in ("v2", "v2beta1"):
                return params["v"]
        elif media in (JSON, "*/*"):
            return ""
    return ""


def body_format(content_type: str) -> str:
    """'json', 'yaml' or 'protobuf'. An absent type means JSON."""
    media = content_type.partition(";")[0].strip().lower()
    if media in ("", JSON):
        return "json"
    if media in _YAML_TYPES:
        return "yaml"
    if media == PROTOBUF:
        return "protobuf"
    raise unsupported_media_type((JSON, YAML, PROTOBUF))


def _media_types(accept: str) -> list[tuple[str, dict[str, str]]]:
    """In the order of preference: by `q`, then as written."""
    wishes: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *raw = (part.strip() for part in clause.split(";"))
        params = dict(part.partition("=")[::2] for part in raw if "=" in part)
        try:
            quality = float(params.get("q", "1"))
        except ValueError:
            quality = 1.0
        wishes.append((quality, media.lower(), params))
    wishes.sort(key=lambda wish: -wish[0])
    return [(media, params) for quality, media, params in wishes if quality > 0]
