"""Which resource names are accelerators, and what Ray calls them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")

TPU: Final = "google.com/tpu"
_RAY_NAMES: Final[Mapping[str, str]] = {
    "aws.amazon.com/neuroncore": "neuron_cores",
    TPU: "TPU",
}
RAY_ACCELERATORS = frozenset(_RAY_NAMES.values())


def is_gpu_key(name: str) -> bool:
    """Any vendor's GPU, and NVIDIA's slices of one."""
    return name.endswith("gpu") or _MIG.search(name) is not None


def ray_accelerator_name(name: str) -> str:
    """What Ray calls this accelerator in `--resources`; empty for anything else."""
    return _RAY_NAMES.get(name, "")
