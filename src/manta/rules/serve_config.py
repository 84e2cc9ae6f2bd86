"""`spec.serveConfigV2`: Ray Serve's multi-application config, a YAML text that must be a map.

Ray does not keep what it was given in a form that could be compared, so a config is known by its
hash: equal hashes need no second submission.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.documents import limits
from manta.api.documents.reader import read_yaml
from manta.api.meta import ObjectMeta
from manta.api.ray.names import DEFAULT_SERVE_APPLICATION
from manta.rules.text_cache import MAX_TEXT, TextParser
from manta.rules.traits import Creator, creator
from manta.rules.validation.violation import Violation

ServeConfig = Mapping[str, Any]

FIELD = "spec.serveConfigV2"
_TARGET_CAPACITY = "target_capacity"

SERVE_PROXIES: Final = "manta.ray.io/serve-proxies"
"""Annotation of a RayCluster that a RayService made: `head` when its workers have no Serve proxy."""
ON_HEAD_ONLY: Final = "head"


def _parse(text: str) -> ServeConfig | Violation:
    """The config, or what is wrong with it. Parsed once per text."""
    if len(text) > MAX_TEXT:
        return Violation(FIELD, text[:100], f"has {len(text)} characters; at most {MAX_TEXT}")
    try:
        value = read_yaml(text, limits.FIELD, duplicates=[])  # the last wins, as in KubeRay
    except limits.DocumentError as error:
        return Violation(FIELD, text, f"is not valid YAML: {error}")
    if value is None:  # empty, or nothing but comments
        return {}
    wrong = _what_is_wrong(value)
    return Violation(FIELD, text, wrong) if wrong else value


parse_serve_config: Final[TextParser[ServeConfig | Violation]] = TextParser(_parse)


def _what_is_wrong(value: Any) -> str:
    """Only what Ray would refuse for certain: its own schema is Ray's business."""
    if not isinstance(value, dict):
        return "must be a map with a list `applications`"
    applications = value.get("applications")
    if not isinstance(applications, list) or not all(isinstance(one, dict) for one in applications):
        return "must hold a list `applications`, each with at least an import_path"
    times = Counter(application_names(value))
    twice = sorted(name for name, count in times.items() if count > 1)
    if twice:
        return f"names application {', '.join(twice)} twice: give each a name of its own"
    return ""


def application_names(config: ServeConfig) -> tuple[str, ...]:
    """The declared applications; one without a name is Ray's `default`."""
    return tuple(
        str(one.get("name") or DEFAULT_SERVE_APPLICATION) for one in config.get("applications", ())
    )


def has_proxies_on_workers(config: ServeConfig) -> bool:
    """Where requests are taken: on every node with a replica, unless the config says otherwise."""
    options = config.get("http_options")
    older = options.get("location") if isinstance(options, dict) else None
    return (config.get("proxy_location") or older or "EveryNode") == "EveryNode"


def serves_on_workers(meta: ObjectMeta) -> bool:
    """Do this cluster's workers take requests? Else nobody may ask that of them (C52)."""
    of_service = creator(meta) is Creator.SERVICE
    return of_service and meta.annotations.get(SERVE_PROXIES) != ON_HEAD_ONLY


def with_capacity(config: ServeConfig, percent: int | None) -> ServeConfig:
    """The same config, asking Serve for this share of its replicas. None: as the user wrote it."""
    return config if percent is None else {**config, _TARGET_CAPACITY: percent}


def config_hash(config: ServeConfig) -> str:
    text = msgspec.json.encode(config, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]
