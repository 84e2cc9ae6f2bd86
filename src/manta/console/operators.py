"""Reads the metrics of the operator for one visitor, while the page of the operator is open.

Through the API server's proxy to the operator's Pods, with the visitor's rights; on a plane of `manta up`, whose
owner the visitor is, from the operator's own port.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from manta.api.ray.names import OPERATOR_NAME
from manta.api.resources import PODS
from manta.api.well_known import LABEL_APP_COMPONENT
from manta.console.operator_metrics import Reading, rates, reading_of
from manta.console.snapshot import Sample, Snapshot
from manta.console.views import Pod
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.proxy import pod_proxy_path
from manta.runtime.clock import Clock

LocalMetrics = Callable[[], Awaitable[str]]
"""The metrics of the operator of a plane on this machine. Raises MantaError."""
MAX_PODS: Final = 5
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_SAMPLES: Final = 720
_TIMEOUT_SECONDS: Final = 5.0
COMPONENTS: Final = frozenset((OPERATOR_NAME, "operator"))
"""Values of the label `app.kubernetes.io/component` of an operator's Pods."""
_METRICS: Final = "metrics"
_DEFAULT_PORT: Final = 8080


class NoMetricsError(MantaError):
    """There is no operator that this visitor may ask."""


@dataclass(frozen=True, slots=True)
class OperatorView:
    """What the page of the operator shows."""

    readings: tuple[Reading, ...] = ()
    samples: tuple[Sample, ...] = ()
    """Queued and delayed keys, reconciles and failures a second, milliseconds of the 95th percentile."""
    pods: tuple[Pod, ...] = ()
    why: str = ""
    """Why there is no newer reading."""


def operator_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    return tuple(
        one for one in snapshot.pods if one.metadata.labels.get(LABEL_APP_COMPONENT) in COMPONENTS
    )


class Operators:
    def __init__(self, client: Client, clock: Clock, local: LocalMetrics | None = None) -> None:
        self._client = client
        self._clock = clock
        self._local = local
        self._readings: deque[Reading] = deque(maxlen=2)
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)

    def view(self, snapshot: Snapshot, why: str = "") -> OperatorView:
        found = operator_pods(snapshot)
        return OperatorView(tuple(self._readings), tuple(self._samples), found, why)

    async def read(self, snapshot: Snapshot) -> Reading:
        """The next reading, which is kept. Raises MantaError."""
        if self._local is not None:
            texts = [await self._local()]
        else:
            texts = [await self._of(pod) for pod in self._asked(snapshot)]
        before = self._readings[-1] if self._readings else None
        now = reading_of(texts, self._clock.now())
        self._readings.append(now)
        between = rates(before, now)
        queued = sum(one.queued for one in now.controllers)
        delayed = sum(one.delayed for one in now.controllers)
        values = (
            queued,
            delayed,
            round(between.reconciles, 2),
            round(between.failures, 2),
            round((between.p95 or 0.0) * 1000, 1),
        )
        self._samples.append(Sample(now.at, values))
        return now

    def _asked(self, snapshot: Snapshot) -> tuple[Pod, ...]:
        if why := snapshot.hidden.get(PODS.plural):
            raise NoMetricsError(f"the Pods of the operator cannot be seen: {why}")
        found = operator_pods(snapshot)
        if not found:
            raise NoMetricsError("no Pod of an operator is in the namespaces that you see")
        return found[:MAX_PODS]

    async def _of(self, pod: Pod) -> str:
        path = pod_proxy_path(pod.metadata.namespace, pod.metadata.name, _port(pod), "metrics")
        answer = await self._client.send("GET", path, timeout=_TIMEOUT_SECONDS, limit=MAX_BYTES)
        return answer.body[:MAX_BYTES].decode("utf-8", "replace")


def _port(pod: Pod) -> int:
    ports = (port for one in pod.spec.containers for port in one.ports)
    return next((one.container_port for one in ports if one.name == _METRICS), _DEFAULT_PORT)
