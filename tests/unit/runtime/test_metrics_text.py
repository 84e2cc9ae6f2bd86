"""What prometheus-client writes is what was written before it: names, labels, types and values (P3)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from manta.httpserver.messages import HttpRequest, HttpResponse, text_response
from manta.runtime.controller_metrics import ApiMetrics, RuntimeMetrics
from manta.runtime.gauges import register_process
from manta.runtime.metrics import Computed, Registry
from manta.runtime.queue import Done, Retry
from support.page_server import ask, serving

BEFORE = Path(__file__).parents[2] / "golden/metrics.txt"
"""Written by the renderer that was there before."""
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def filled() -> Registry:
    registry = Registry()
    hits = registry.counter("hits_total", "Hits\nand \\ more.", ("who", "how"))
    hits.add("a", 'q"\\\n')
    hits.add("a", "x", by=2.5)
    registry.gauge("depth", "Depth.").set(1.5)
    took = registry.histogram("took_seconds", "Took.", ("controller",))
    for value in (0.0005, 0.001, 0.7, 2.0, 61.0):
        took.observe(value, "raycluster")
    took.observe(1e-7, "rayjob")
    clusters = [((f"c{number}", "ns"), 1.0) for number in range(3)]
    labels = ("name", "namespace")
    registry.register(Computed("kuberay_cluster_info", "Info.", labels, lambda: clusters))
    name = "manta_events_written_total"
    registry.register(Computed(name, "Events.", (), lambda: [((), 12.0)], kind="counter"))
    _use(registry)
    return registry


def _use(registry: Registry) -> None:
    metrics = RuntimeMetrics(registry).of("raycluster")
    metrics.added(3)
    metrics.handed_out(0.2, 2)
    metrics.finished(0.4)
    metrics.retried()
    metrics.reconciled(Done())
    metrics.reconciled(Retry("x"))
    metrics.failed("plan")
    requests = ApiMetrics(registry, "https://me:secret@host:6443/path")
    requests("create", "pods", 201, 0.01)
    requests("get", "pods", 0, 30.0)


def facts(families: Iterable[Any]) -> dict[str, Any]:
    return {
        family.name: (
            family.type,
            family.documentation,
            sorted((one.name, sorted(one.labels.items()), one.value) for one in family.samples),
        )
        for family in families
        if family.name != "manta_metrics_errors"
    }


def test_the_text_says_what_it_always_said() -> None:
    before = facts(text_string_to_metric_families(BEFORE.read_text()))
    assert len(before) > 10
    assert facts(text_string_to_metric_families(filled().render())) == before


def test_a_scraper_that_asks_for_openmetrics_gets_it() -> None:
    text, media_type = filled().rendered(f"{OPENMETRICS},text/plain;q=0.5")
    assert openmetrics.exposition.CONTENT_TYPE_LATEST.split(";")[0] in media_type
    assert text.endswith("# EOF\n")
    reported = facts(read_openmetrics(text))
    assert reported.keys() == facts(text_string_to_metric_families(BEFORE.read_text())).keys()


def test_a_scraper_that_asks_for_nothing_gets_the_old_form() -> None:
    _, media_type = filled().rendered("")
    assert media_type.startswith("text/plain; version=0.0.4")


def test_a_measurement_in_a_trace_is_its_exemplar() -> None:
    registry = Registry()
    took = registry.histogram("took_seconds", "Took.", ("who",))
    took.observe(0.7, "a", trace="4bf92f3577b34da6a3ce929d0e0e4736")
    text, _ = registry.rendered(OPENMETRICS)
    assert '# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.7' in text
    assert "trace_id" not in registry.render()


def test_a_wrong_number_of_labels_is_an_error_where_it_is_made() -> None:
    registry = Registry()
    with pytest.raises(ValueError, match="labels"):
        registry.counter("a_total", "A.", ("x",)).add("1", "2")
    with pytest.raises(ValueError, match="labels"):
        registry.gauge("b", "B.", ("x",)).set(1.0)
    with pytest.raises(ValueError, match="labels"):
        registry.histogram("c", "C.", ("x",)).observe(1.0)
    assert "a_total{" not in registry.render()


def test_a_family_that_cannot_be_reported_costs_the_scrape_nothing_else() -> None:
    def raises() -> Any:
        raise KeyError("a label")

    registry = Registry()
    registry.register(Computed("bad", "Bad.", ("x",), lambda: [(("1", "2"), 1.0)]))
    registry.register(Computed("worse", "Worse.", (), raises))
    registry.gauge("good", "Good.").set(1.0)
    registry.render()
    text = registry.render()
    assert "good 1.0" in text
    assert 'manta_metrics_errors_total{family="bad"}' in text
    assert 'manta_metrics_errors_total{family="worse"}' in text


def test_the_process_is_described() -> None:
    registry = Registry()
    register_process(registry)
    text = registry.render()
    names = ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds")
    for name in (*names, "process_start_time_seconds", "process_max_fds", "python_info"):
        assert f"\n{name}" in text


async def test_pages_are_negotiated_and_one_that_raises_is_an_error_and_no_silence() -> None:
    def raises(_: HttpRequest) -> HttpResponse:
        raise KeyError("x")

    def accepted(request: HttpRequest) -> HttpResponse:
        return text_response(200, request.headers["accept"])

    async with serving({"/metrics": accepted, "/bad": raises}) as server:
        head = f"GET /metrics HTTP/1.1\r\nhost: x\r\nACCEPT: {OPENMETRICS}\r\n"
        assert (await ask(server, head)).endswith(OPENMETRICS.encode())
        assert (await ask(server, "GET /bad HTTP/1.1\r\n")).startswith(b"HTTP/1.1 500 ")
