"""Holding 10,000 Pods: our cache, orjson's dicts and the official client's models.

Each in a process of its own; the result is the growth over the same process without Pods.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.memory import rss_mib
from benchmarks.pods import pod_list

COUNT, PAGE = 10_000, 500


def pages() -> Any:
    return (pod_list(PAGE, first) for first in range(0, COUNT, PAGE))


def hold_cache() -> Callable[[], Any]:
    import msgspec

    from benchmarks.decode import PodList
    from manta.runtime.cache import Cache
    from manta.runtime.interning import share

    decoder = msgspec.json.Decoder(PodList)
    cache: Cache[Any] = Cache({"by-cluster": lambda pod: (pod.metadata.labels["ray.io/cluster"],)})

    def fill() -> Any:
        for page in pages():
            for pod in decoder.decode(page).items:
                cache.put(share(pod))
        return cache

    return fill


def hold_dicts() -> Callable[[], Any]:
    import orjson

    return lambda: [pod for page in pages() for pod in orjson.loads(page)["items"]]


def hold_models() -> Callable[[], Any]:
    from kubernetes.client import V1PodList

    def models(page: bytes) -> V1PodList:
        decoded = V1PodList.from_json(page.decode())
        assert decoded is not None
        return decoded

    return lambda: [pod for page in pages() for pod in models(page).items]


WAYS = {"cache": hold_cache, "orjson_dicts": hold_dicts, "official_client": hold_models}


def grow(way: str) -> None:
    fill = WAYS[way]()
    pod_list(PAGE)  # the memory of making a page is not what is measured
    before = rss_mib()
    kept = fill()
    print(rss_mib() - before)
    del kept


def main() -> None:
    growth = {}
    for way in WAYS:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.cache_memory", way],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        growth[f"{way}_mib"] = round(float(run.stdout), 1)
    print(json.dumps({"pods": COUNT, **growth, "goal": "cache_mib at most 50"}))


if __name__ == "__main__":
    grow(sys.argv[1]) if len(sys.argv) > 1 else main()
