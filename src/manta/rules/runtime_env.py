"""`spec.runtimeEnvYAML`: a YAML text that must be a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from manta.rules.text_cache import TextParser, read_field
from manta.rules.validation.violation import Violation

FIELD: Final = "spec.runtimeEnvYAML"


def _parse(text: str) -> Mapping[str, Any] | Violation:
    """The environment, or what is wrong with it. Parsed once per text."""
    value = read_field(FIELD, text)
    if value is None or isinstance(value, Violation):
        return value or {}
    if not isinstance(value, dict):
        cure = "must be a map, such as `pip: [requests]` or `env_vars: {A: b}`"
        return Violation(FIELD, text, cure)
    return value


parse_runtime_env: Final[TextParser[Mapping[str, Any] | Violation]] = TextParser(_parse)
