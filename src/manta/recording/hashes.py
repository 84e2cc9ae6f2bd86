"""The hashes that plans compare: recorded with the redacted spec's hash in place of the real one.

A spec without its secrets has another hash than the one on live Pods: a replay would re-create them all.
So each real hash is replaced, wherever it occurs, by the hash of what is recorded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

from manta.api.ray.cluster import RayClusterSpec
from manta.api.ray.service import RayServiceSpec
from manta.rules.serve_config import config_hash, with_capacity
from manta.rules.spec_hash import spec_hash

LOOKS_LIKE_A_HASH: Final = re.compile(rb"\b(?:[0-9A-V]{32}|[0-9a-f]{16})\b")
SERVE_CONFIG: Final = "serve_config"
_MANY: Final = 20
"""From so many hashes on, one pattern is faster than a search for each."""


def hashed_values(snapshot: Any) -> Iterator[tuple[Hashable, str, Any]]:
    """What planners compute hashes of, in this snapshot: slot, name and value of each."""
    cluster, service = getattr(snapshot, "cluster", None), getattr(snapshot, "service", None)
    for one in (cluster, service, *getattr(snapshot, "clusters", ())):
        if one is not None:
            yield ((type(one), one.metadata.uid), "spec"), "spec", one.spec
    if config := getattr(snapshot, SERVE_CONFIG, None):
        yield (SERVE_CONFIG,), SERVE_CONFIG, config


def content_hashes(name: str, value: Any) -> tuple[str, ...]:
    """All hashes that a planner may compute from a value of `hashed_values`."""
    match value:
        case RayClusterSpec():
            return tuple(_of_spec(value))
        case RayServiceSpec():
            return tuple(_of_spec(value.ray_cluster_config))
        case Mapping() if name == SERVE_CONFIG and value:
            return tuple(_of_config(value))
    return ()


def _of_spec(spec: RayClusterSpec) -> Iterator[str]:
    yield spec_hash(spec)
    for count in range(len(spec.worker_group_specs)):
        yield spec_hash(spec, worker_groups=count)


def _of_config(config: Mapping[str, Any]) -> Iterator[str]:
    for percent in (None, *range(101)):
        yield config_hash(with_capacity(config, percent))


def translated(text: bytes, known: Mapping[bytes, bytes]) -> bytes:
    """The text with every known hash replaced."""
    if len(known) > _MANY:
        return LOOKS_LIKE_A_HASH.sub(lambda found: known.get(found[0], found[0]), text)
    for real, recorded in known.items():
        if real in text:
            text = text.replace(real, recorded)
    return text
