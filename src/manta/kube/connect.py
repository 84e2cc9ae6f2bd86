"""Build a client of a cluster."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime

from manta.kube.client import Client, RequestObserver
from manta.kube.cluster import Cluster
from manta.kube.rate_limiter import RateLimiter
from manta.kube.retry import DEFAULT, RetryPolicy
from manta.kube.transport import HttpTransport


async def connect(
    cluster: Cluster,
    *,
    now: Callable[[], datetime] | None = None,
    limiter: RateLimiter | None = None,
    observer: RequestObserver | None = None,
    retry: RetryPolicy = DEFAULT,
    rng: random.Random | None = None,
    connections: int = 64,
) -> Client:
    """A client of this cluster, to be closed by the caller. Sends nothing yet.

    With `now` (the wall clock), exec plugins run again before their credential expires.
    """
    transport = HttpTransport(cluster, now=now, connections=connections)
    return Client(transport, limiter=limiter, observer=observer, retry=retry, rng=rng)
