"""`spec.runtimeEnvYAML`: a YAML text that must be a map."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from manta.rules.validation.violation import Violation


@lru_cache(maxsize=256)
def parse_runtime_env(text: str) -> Mapping[str, Any] | Violation:
    """Parsed once per text: a round must not read YAML again and again."""
    import yaml

    if not text.strip():
        return {}
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return Violation("spec.runtimeEnvYAML", text, f"is not valid YAML: {error}")
    if not isinstance(value, dict):
        cure = "must be a map, such as `pip: [requests]` or `env_vars: {A: b}`"
        return Violation("spec.runtimeEnvYAML", text, cure)
    return value
