"""The metrics of controllers, work queues and API requests, by the names of controller-runtime and client-go.

Dashboards made for KubeRay keep working. Metrics of our own start with `manta_`.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from manta.runtime.metrics import Registry
from manta.runtime.queue import Done, Retry
from manta.runtime.tracing import last_trace


class RuntimeMetrics:
    """The families that every controller shares."""

    def __init__(self, registry: Registry) -> None:
        name = ("name",)
        controller = ("controller",)
        self.registry = registry
        self.depth = registry.gauge("workqueue_depth", "Keys ready to run.", name)
        self.adds = registry.counter("workqueue_adds_total", "Keys added.", name)
        self.waited = registry.histogram(
            "workqueue_queue_duration_seconds", "How long a key waited for a worker.", name
        )
        self.worked = registry.histogram(
            "workqueue_work_duration_seconds", "How long a key was worked on.", name
        )
        self.retries = registry.counter(
            "workqueue_retries_total", "Keys put back with backoff.", name
        )
        self.total = registry.counter(
            "controller_runtime_reconcile_total", "Reconciles by result.", ("controller", "result")
        )
        self.errors = registry.counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that failed.", controller
        )
        self.panics = registry.counter(
            "controller_runtime_reconcile_panics_total",
            "Reconciles that ended with an exception of the program: a bug.",
            controller,
        )
        self.time = registry.histogram(
            "controller_runtime_reconcile_time_seconds", "Duration of a reconcile.", controller
        )

        self.failures = registry.counter(
            "manta_reconcile_failures_total",
            "Reconciles that raised, by phase.",
            ("controller", "phase"),
        )

    def of(self, controller: str) -> ControllerMetrics:
        return ControllerMetrics(self, controller)


_METHODS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


class ApiMetrics:
    """An observer of a client: counts requests as client-go does."""

    def __init__(self, registry: Registry, server: str) -> None:
        self._host = urlsplit(server).netloc.rpartition("@")[2]
        self._requests = registry.counter(
            "rest_client_requests_total", "Requests to the API server.", ("code", "host", "method")
        )
        self._seconds = registry.histogram(
            "rest_client_request_duration_seconds",
            "Duration of requests to the API server.",
            ("verb", "host"),
        )
        self._by_resource = registry.counter(
            "manta_api_requests_total",
            "Requests by verb, resource and status code.",
            ("verb", "resource", "code"),
        )

    def __call__(self, verb: str, resource: str, code: int, seconds: float) -> None:
        method = _METHODS.get(verb, "GET")
        label = str(code) if code else "<error>"  # client-go's word for no response
        self._requests.add(label, self._host, method)
        self._by_resource.add(verb, resource, label)
        if verb != "watch":  # the duration of a watch says nothing
            self._seconds.observe(seconds, method, self._host, trace=last_trace())


class ControllerMetrics:
    """The queue observer and the reconcile results of one controller."""

    def __init__(self, shared: RuntimeMetrics, controller: str) -> None:
        self._shared = shared
        self._name = controller

    def added(self, depth: int) -> None:
        self._shared.adds.add(self._name)
        self._shared.depth.set(depth, self._name)

    def handed_out(self, waited: float, depth: int) -> None:
        self._shared.waited.observe(waited, self._name)
        self._shared.depth.set(depth, self._name)

    def finished(self, worked: float) -> None:
        self._shared.worked.observe(worked, self._name)
        self._shared.time.observe(worked, self._name, trace=last_trace())

    def retried(self) -> None:
        self._shared.retries.add(self._name)

    def failed(self, phase: str) -> None:
        self._shared.failures.add(self._name, phase)

    def panicked(self) -> None:
        self._shared.panics.add(self._name)

    def reconciled(self, result: Done | Retry) -> None:
        if isinstance(result, Retry):
            self._shared.errors.add(self._name)
            self._shared.total.add(self._name, "error")
        elif result.retry_in is not None:
            self._shared.total.add(self._name, "requeue_after")
        else:
            self._shared.total.add(self._name, "success")
