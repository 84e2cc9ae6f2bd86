"""`spec.runtimeEnvYAML`: a YAML text that must be a map."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from manta.api.documents import limits
from manta.api.documents.reader import read_yaml
from manta.rules.validation.violation import Violation


@lru_cache(maxsize=256)
def parse_runtime_env(text: str) -> Mapping[str, Any] | Violation:
    """Parsed once per text: a round must not read YAML again and again."""
    try:
        value = read_yaml(text, limits.FIELD)
    except limits.DocumentError as error:
        return Violation("spec.runtimeEnvYAML", text, f"is not valid YAML: {error}")
    if value is None:  # empty, or nothing but comments
        return {}
    if not isinstance(value, dict):
        cure = "must be a map, such as `pip: [requests]` or `env_vars: {A: b}`"
        return Violation("spec.runtimeEnvYAML", text, cure)
    return value
