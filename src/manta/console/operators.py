"""Reads the metrics of the operator for one visitor, while the page of the operator is open.

Through the API server's proxy to the operator's Pods, with the visitor's rights; on a plane of `manta up`, whose
owner the visitor is, from the operator's own port.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Final

from manta.api.ray.names import OPERATOR_NAME
from manta.api.resources import PODS
from manta.api.well_known import LABEL_APP_COMPONENT, LABEL_APP_NAME
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
LABELS: Final = (
    {LABEL_APP_COMPONENT: OPERATOR_NAME},
    {
        LABEL_APP_COMPONENT: "operator",
        LABEL_APP_NAME: "manta",
    },  # without `compatibility.kuberayNames`
)
"""The Pods of operators have one of these; those of other operators, which are not of Ray, may have the component too."""
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
        one
        for one in snapshot.pods
        if any(wanted.items() <= one.metadata.labels.items() for wanted in LABELS)
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
            now = reading_of([await self._local()], self._clock.now())
        else:
            now = await self._reading(self._asked(snapshot))
        before = self._readings[-1] if self._readings else None
        self._readings.append(now)
        self._samples.append(Sample(now.at, _values(before, now)))
        return now

    async def _reading(self, pods: Sequence[Pod]) -> Reading:
        """The sum of the Pods that answer, and why others do not. Raises MantaError if none does."""
        answers = await asyncio.gather(*(self._of(one) for one in pods), return_exceptions=True)
        texts: dict[str, str] = {}
        errors: list[MantaError] = []
        for pod, answer in zip(pods, answers, strict=True):
            if isinstance(answer, MantaError):
                errors.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                texts[pod.metadata.uid] = answer
        if not texts:
            raise errors[0]
        silent = tuple(str(one) for one in errors)
        return reading_of(texts.values(), self._clock.now(), frozenset(texts), silent)

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


def _values(before: Reading | None, now: Reading) -> tuple[float, ...]:
    """As in `OperatorView.samples`; not a number: nothing is known, or nothing ran."""
    queued = sum(one.queued for one in now.controllers)
    delayed = sum(one.delayed for one in now.controllers)
    if (between := rates(before, now)) is None:
        return (queued, delayed, nan, nan, nan)
    took = nan if between.p95 is None else round(between.p95 * 1000, 1)
    return (queued, delayed, round(between.reconciles, 2), round(between.failures, 2), took)


def _port(pod: Pod) -> int:
    ports = (port for one in pod.spec.containers for port in one.ports)
    return next((one.container_port for one in ports if one.name == _METRICS), _DEFAULT_PORT)
