"""Which Kubernetes resources are accelerators, and their names in Ray."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from manta.api.ray.names import RESOURCE_AWS_NEURON_CORE, RESOURCE_GOOGLE_TPU

_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")

_RAY_NAMES: Final[Mapping[str, str]] = {
    RESOURCE_AWS_NEURON_CORE: "neuron_cores",
    RESOURCE_GOOGLE_TPU: "TPU",
}
RAY_ACCELERATORS = frozenset(_RAY_NAMES.values())


def is_gpu_key(name: str) -> bool:
    """Whether this is a GPU of any vendor, or a MIG slice of NVIDIA's."""
    return name.endswith("gpu") or _MIG.search(name) is not None


def ray_accelerator_name(name: str) -> str:
    """Ray's name of this accelerator in `--resources`; empty for other resources."""
    return _RAY_NAMES.get(name, "")
