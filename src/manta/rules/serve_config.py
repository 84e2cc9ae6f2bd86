"""`spec.serveConfigV2`: Ray Serve's multi-application config, a YAML text that must be a map.

Ray does not return a submitted config in a comparable form, so configs are compared by hash: an equal hash
needs no second submission.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.meta import ObjectMeta
from manta.api.ray.names import ANNOTATION_SERVE_PROXIES, DEFAULT_SERVE_APPLICATION
from manta.rules.text_cache import TextParser, read_field
from manta.rules.traits import Creator, creator
from manta.rules.validation.violation import Violation

ServeConfig = Mapping[str, Any]

FIELD = "spec.serveConfigV2"
_TARGET_CAPACITY = "target_capacity"

ON_HEAD_ONLY: Final = "head"


def _parse(text: str) -> ServeConfig | Violation:
    """The config, or what is wrong with it. Parsed once per text."""
    value = read_field(FIELD, text)
    if value is None or isinstance(value, Violation):
        return value or {}
    wrong = _problem_of(value)
    return Violation(FIELD, text, wrong) if wrong else value


parse_serve_config: Final[TextParser[ServeConfig | Violation]] = TextParser(_parse)


def _problem_of(value: Any) -> str:
    """Only what Ray certainly refuses; empty if valid. The full schema is left to Ray."""
    if not isinstance(value, dict):
        return "must be a map with a list `applications`"
    applications = value.get("applications")
    if not isinstance(applications, list) or not all(isinstance(one, dict) for one in applications):
        return "must contain a list `applications`, each with at least an import_path"
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
    """Whether workers have a Serve proxy: every node with a replica has one by default."""
    options = config.get("http_options")
    older = options.get("location") if isinstance(options, dict) else None
    return (config.get("proxy_location") or older or "EveryNode") == "EveryNode"


def serves_on_workers(meta: ObjectMeta) -> bool:
    """Whether this cluster's workers take requests. If not, their readiness must not depend on it (C52)."""
    of_service = creator(meta) is Creator.SERVICE
    return of_service and meta.annotations.get(ANNOTATION_SERVE_PROXIES) != ON_HEAD_ONLY


def with_capacity(config: ServeConfig, percent: int | None) -> ServeConfig:
    """The config with this target capacity; None: as the user wrote it."""
    return config if percent is None else {**config, _TARGET_CAPACITY: percent}


def config_hash(config: ServeConfig) -> str:
    text = msgspec.json.encode(config, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]
