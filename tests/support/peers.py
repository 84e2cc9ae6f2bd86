"""What tests compare with, where it is at hand: KubeRay's CRDs, samples and operator. Nothing of it is in this repository.

`MANTA_PEER_DATA` names the directory of CRDs and samples; without it, `shared/data` beside the
repository is tried. `MANTA_KUBERAY_BINARY` names KubeRay's operator, with `{release}` in it where
several releases are at hand; a path without `{release}` is KubeRay 1.7.0. Tests that need either skip without.
"""

from __future__ import annotations

import os
from pathlib import Path

_BESIDE = Path(__file__).parents[3] / "shared"
_DATA = Path(os.environ.get("MANTA_PEER_DATA") or _BESIDE / "data")

KUBERAY_CRDS = _DATA / "kuberay-crds"
KUBERAY_SAMPLES = _DATA / "kuberay-samples"
KUBECTL_REQUESTS = _BESIDE / "reference/apiserver/kubectl-requests.txt"
KUBERAY_BINARY = "MANTA_KUBERAY_BINARY"
KUBERAY_RELEASES = ("1.5.2", "1.6.2", "1.7.0")


def kuberay_samples(prefix: str) -> list[Path]:
    return sorted(KUBERAY_SAMPLES.glob(f"{prefix}*.yaml"))


def kuberay_binary(release: str = "1.7.0") -> Path | None:
    """KubeRay's operator of this release; None where it is not at hand."""
    named = os.environ.get(KUBERAY_BINARY, "")
    if not named or ("{release}" not in named and release != "1.7.0"):
        return None
    path = Path(named.replace("{release}", release))
    return path if os.access(path, os.X_OK) else None
