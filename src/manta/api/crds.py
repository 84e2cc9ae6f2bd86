"""The four CustomResourceDefinitions, as shipped with this package (written by `make crds`)."""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

import msgspec

NAMES: Final = (
    "rayclusters.ray.io",
    "rayjobs.ray.io",
    "rayservices.ray.io",
    "raycronjobs.ray.io",
)


def crd_json(name: str) -> bytes:
    """One of them as compact JSON, ready to be sent."""
    return resources.files("manta.api").joinpath("schemas", f"{name}.json").read_bytes()


def crd_documents() -> list[dict[str, Any]]:
    return [msgspec.json.decode(crd_json(name)) for name in NAMES]
