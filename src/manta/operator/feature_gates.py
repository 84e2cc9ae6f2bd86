"""Feature gates by their KubeRay names, as `--feature-gates` takes them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Final

from manta.api.usage import UsageError, did_you_mean
from manta.rules.settings import FeatureGates

GATES: Final[Mapping[str, str]] = {
    one.metadata["name"]: one.name for one in dataclasses.fields(FeatureGates)
}
"""Name of a gate to its field."""


def gate_help() -> str:
    defaults = FeatureGates()
    shown = (f"{name}={str(getattr(defaults, gate)).lower()}" for name, gate in GATES.items())
    return "features to enable or disable; defaults: " + ", ".join(shown)


def enabled_gates(gates: FeatureGates) -> list[str]:
    """The names of the gates that are on."""
    return [name for name, gate in GATES.items() if getattr(gates, gate)]


def parse_feature_gates(text: str) -> FeatureGates:
    """`A=true,B=false`. Raises UsageError for an unknown gate or value."""
    chosen: dict[str, bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if name not in GATES:
            raise UsageError(
                f"--feature-gates: unknown feature gate {name!r}{did_you_mean(name, GATES)}; "
                f"known: {', '.join(GATES)}"
            )
        try:
            chosen[GATES[name]] = parse_bool(value if equals else "true")
        except argparse.ArgumentTypeError as error:
            raise UsageError(
                f"--feature-gates: {name}: {error}; write {name}=true or {name}=false"
            ) from error
    return dataclasses.replace(FeatureGates(), **chosen)


def parse_bool(text: str) -> bool:
    """A bool as Go's flags write it. Raises ArgumentTypeError."""
    if text.lower() in {"true", "t", "1"}:
        return True
    if text.lower() in {"false", "f", "0"}:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
