"""The CRDs of the four Ray kinds, for tests on the embedded server."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from support.plane import KUBERAY_CRDS


@cache
def _documents() -> list[dict[str, Any]]:
    return [yaml.load(f.read_text(), yaml.CSafeLoader) for f in KUBERAY_CRDS.glob("*.yaml")]


def ray_crds() -> list[dict[str, Any]]:
    return list(_documents())
