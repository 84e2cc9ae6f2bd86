"""`spec.runtimeEnvYAML`: a YAML text that must be a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from manta.api.documents import limits
from manta.api.documents.reader import read_yaml
from manta.rules.text_cache import MAX_TEXT, TextParser
from manta.rules.validation.violation import Violation

FIELD: Final = "spec.runtimeEnvYAML"


def _parse(text: str) -> Mapping[str, Any] | Violation:
    """The environment, or what is wrong with it. Parsed once per text."""
    if len(text) > MAX_TEXT:
        return Violation(FIELD, text[:100], f"has {len(text)} characters; at most {MAX_TEXT}")
    try:
        value = read_yaml(text, limits.FIELD, duplicates=[])  # the last wins, as in KubeRay
    except limits.DocumentError as error:
        return Violation(FIELD, text, f"is not valid YAML: {error}")
    if value is None:  # empty, or nothing but comments
        return {}
    if not isinstance(value, dict):
        cure = "must be a map, such as `pip: [requests]` or `env_vars: {A: b}`"
        return Violation(FIELD, text, cure)
    return value


parse_runtime_env: Final[TextParser[Mapping[str, Any] | Violation]] = TextParser(_parse)
