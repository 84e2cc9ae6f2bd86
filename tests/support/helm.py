"""Helm for tests: the binary that tools/helm.sh built, or a skip."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/manta"
KUBERNETES = "1.35.0"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The plain one takes seconds for the CRDs."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "manta/helm"


@functools.cache
def binary() -> Path:
    """Not built here: it takes minutes. `make helm` builds it, before the suites that use it."""
    found = Path(os.environ.get("MANTA_HELM_CACHE", CACHE)) / "helm"
    if not found.exists():
        pytest.skip("helm is not built: run `make helm`")
    return found


def helm(
    *arguments: str | Path, kubeconfig: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    home = {"HELM_CACHE_HOME": "/nonexistent", "HELM_CONFIG_HOME": "/nonexistent"}
    environment = {**os.environ, **home}
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    done = subprocess.run(
        [binary(), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def rendered(
    *options: str | Path,
    release: str = "manta",
    namespace: str = "manta-system",
    chart: Path = CHART,
) -> list[dict[str, Any]]:
    """The objects, in the order in which Helm prints them."""
    text = helm(
        "template", release, chart, "-n", namespace, "--kube-version", KUBERNETES, *options
    ).stdout
    return [one for one in yaml.load_all(text, Loader=LOADER) if one]
