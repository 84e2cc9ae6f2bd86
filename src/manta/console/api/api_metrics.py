"""What the API has answered, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from manta.runtime.metrics import Computed, Registry


class ApiMetrics:
    def __init__(self, open_requests: Callable[[], int]) -> None:
        self.registry = Registry()
        self._answers = self.registry.counter(
            "manta_console_api_requests_total",
            "Requests to the API of the console.",
            ("route", "code"),
        )
        self.registry.register(
            Computed(
                "manta_console_api_open_requests",
                "Requests that are not answered to their end, such as watches.",
                (),
                lambda: [((), float(open_requests()))],
            )
        )

    def count(self, route: str, code: int) -> None:
        self._answers.add(route, str(code))
