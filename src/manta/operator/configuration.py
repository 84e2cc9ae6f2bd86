"""The configuration file of the operator (`--config`), read and checked against the option tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.api.usage import UsageError
from manta.operator.option_table import CONFIGURATION_KEYS, FLAGS

API_VERSION: Final = "config.ray.io/v1alpha1"
KIND: Final = "Configuration"
_TYPE_NAMES: Final = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A checked configuration file: values by flag, and by field of Settings."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_configuration(path: Path) -> Configuration:
    """The file's content. Raises UsageError if it cannot be read or is invalid."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror}") from error
    return parse_configuration(text, str(path))


def parse_configuration(text: str | bytes, origin: str) -> Configuration:
    """The content of a configuration file. Raises UsageError, which names `origin`."""
    try:
        document = read_yaml(text)
    except DocumentError as error:
        raise UsageError(f"the configuration {origin} is not valid YAML: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"the configuration {origin} must be a YAML object")
    return _check(document, origin)


def _check(document: Mapping[str, Any], origin: str) -> Configuration:
    found = (document.get("apiVersion", API_VERSION), document.get("kind", KIND))
    if found != (API_VERSION, KIND):
        raise UsageError(f"{origin}: is {found[0]} {found[1]}, not {API_VERSION} {KIND}")
    known = {flag.key: flag for flag in FLAGS if flag.key}
    flags: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for key, value in document.items():
        if key in {"apiVersion", "kind", "metadata"}:
            continue
        if key not in known and key not in CONFIGURATION_KEYS:
            names = ", ".join(sorted((*known, *CONFIGURATION_KEYS)))
            raise UsageError(f"{origin}: unknown key {key!r}; known: {names}")
        if value is None:
            continue  # as in every Kubernetes object: not given
        if key in known:
            _check_type(origin, key, value, known[key].type)
            flags[known[key].name] = value
        else:
            name, kind = CONFIGURATION_KEYS[key]
            _check_type(origin, key, value, kind)
            settings[name] = tuple(value) if kind is list else value
    return Configuration(flags, settings)


def _check_type(origin: str, key: str, value: Any, kind: type) -> None:
    wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{origin}: {key} must be {_TYPE_NAMES[kind]}, not {value!r}")
