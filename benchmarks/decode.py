"""Decoding a list of 1,000 Pods: our views, orjson's dicts and the official client's models."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import msgspec

from benchmarks.pods import pod_list
from manta.api.core import Pod
from manta.api.meta import View


class PodList(View, frozen=True):
    items: tuple[Pod, ...] = ()


def best_of(count: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        kept = work()
        times.append(time.perf_counter() - began)
        del kept
    return min(times) * 1000


def official(body: bytes) -> Callable[[], object]:
    from kubernetes.client import V1PodList

    return lambda: V1PodList.from_json(body.decode())


def main() -> None:
    import orjson

    body = pod_list(1000)
    decoder = msgspec.json.Decoder(PodList)
    ours = best_of(30, lambda: decoder.decode(body))
    dicts = best_of(15, lambda: orjson.loads(body))
    models = best_of(2, official(body))
    print(
        json.dumps(
            {
                "bytes_per_pod": len(body) // 1000,
                "views_ms": round(ours, 2),
                "orjson_ms": round(dicts, 2),
                "official_client_ms": round(models, 1),
                "views_to_orjson": round(ours / dicts, 3),
                "goal": "views_to_orjson at most 0.125",
            }
        )
    )


if __name__ == "__main__":
    main()
