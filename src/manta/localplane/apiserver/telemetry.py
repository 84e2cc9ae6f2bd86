"""The metrics of the API server: requests, their durations, and the store's revision.

Labels are verbs, resources and codes; never names, users or bodies: nothing secret, nothing
unbounded.
"""

from __future__ import annotations

from manta.httpserver.messages import HttpRequest
from manta.localplane.apiserver.registry import Registry as Kinds
from manta.localplane.apiserver.routes import parse_route
from manta.localplane.store.store import Store
from manta.runtime.metrics import Computed, Registry

_BOUNDS = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0)
_LABELS = ("verb", "group", "version", "resource", "subresource")


class Telemetry:
    def __init__(self, store: Store, kinds: Kinds) -> None:
        self._kinds = kinds
        self.registry = Registry()
        self._requests = self.registry.counter(
            "apiserver_request_total", "Requests, by what they asked for.", (*_LABELS, "code")
        )
        self._seconds = self.registry.histogram(
            "apiserver_request_duration_seconds",
            "How long answers took; watches and other streams are left out.",
            _LABELS,
            _BOUNDS,
        )
        self.registry.register(
            Computed(
                "manta_store_revision",
                "The revision of the last write.",
                (),
                lambda: (((), float(store.revision)),),
            )
        )

    def record(self, request: HttpRequest, code: int, seconds: float | None) -> None:
        """Count one response; `seconds` is None for a stream, which has only begun."""
        labels = self._labels(request)
        self._requests.add(*labels, str(code))
        if seconds is not None:
            self._seconds.observe(seconds, *labels)

    def _labels(self, request: HttpRequest) -> tuple[str, str, str, str, str]:
        route = parse_route(request.path)
        resource = None
        if route is not None:
            resource = self._kinds.find(route.group, route.version, route.plural)
        if route is None or resource is None:
            return (request.method, "", "", "", "")  # clients choose unknown paths freely
        verb = route.verb(request.method, watch=route.watch_prefix or request.flag("watch"))
        part = route.subresource
        if part and resource.subresource(part) is None:
            part = "unknown"
        return (verb.upper(), route.group, route.version, route.plural, part)

    def text(self) -> str:
        return self.registry.render()
