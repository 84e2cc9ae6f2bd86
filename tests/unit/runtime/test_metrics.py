"""Prometheus' text form."""

from __future__ import annotations

import pytest

from manta.runtime.controller_metrics import ApiMetrics, RuntimeMetrics
from manta.runtime.metrics import Computed, Registry
from manta.runtime.queue import Done, Retry


def test_counters_and_gauges_are_printed_with_their_labels() -> None:
    registry = Registry()
    hits = registry.counter("hits_total", "Hits.", ("who",))
    hits.add("a")
    hits.add("a", by=2)
    registry.gauge("depth", "Depth.").set(1.5)
    assert registry.render() == (
        "# HELP hits_total Hits.\n# TYPE hits_total counter\n"
        'hits_total{who="a"} 3.0\n'
        "# HELP depth Depth.\n# TYPE depth gauge\ndepth 1.5\n"
        "# HELP manta_metrics_errors_total Families left out of a scrape.\n"
        "# TYPE manta_metrics_errors_total counter\n"
    )


def test_label_values_are_escaped() -> None:
    registry = Registry()
    registry.gauge("g", "G.", ("x",)).set(1, 'a"b\\c\nd')
    assert 'g{x="a\\"b\\\\c\\nd"} 1' in registry.render()


def test_buckets_are_cumulative_and_end_with_infinity() -> None:
    registry = Registry()
    times = registry.histogram("t", "T.", (), (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7):
        times.observe(value)
    text = registry.render()
    assert 't_bucket{le="0.1"} 2' in text
    assert 't_bucket{le="1"} 3' in text
    assert 't_bucket{le="+Inf"} 4' in text
    assert "t_count 4" in text
    assert "t_sum 7.65" in text


def test_computed_families_are_worked_out_at_each_scrape() -> None:
    registry, held = Registry(), [1, 2]
    registry.register(Computed("n", "N.", (), lambda: [((), float(len(held)))]))
    assert "n 2.0\n" in registry.render()
    held.append(3)
    assert "n 3.0\n" in registry.render()


def test_a_name_cannot_be_taken_twice() -> None:
    registry = Registry()
    registry.counter("x_total", "X.")
    with pytest.raises(ValueError, match="twice"):
        registry.gauge("x_total", "X.")


def test_a_counter_has_the_name_of_one() -> None:
    with pytest.raises(ValueError, match="_total"):
        Registry().counter("x", "X.")


def test_rounds_are_counted_by_result_under_controller_runtimes_names() -> None:
    registry = Registry()
    metrics = RuntimeMetrics(registry).of("raycluster")
    for result in (Done(), Done(), Retry("x")):
        metrics.reconciled(result)
    text = registry.render()
    total = "controller_runtime_reconcile_total"
    assert total + '{controller="raycluster",result="success"} 2' in text
    assert total + '{controller="raycluster",result="error"} 1' in text
    assert 'controller_runtime_reconcile_errors_total{controller="raycluster"} 1' in text


def test_requests_are_counted_as_client_go_does() -> None:
    registry = Registry()
    observe = ApiMetrics(registry, "https://me:secret@host:6443/path")
    observe("create", "pods", 201, 0.01)
    observe("watch", "pods", 200, 300.0)
    observe("get", "pods", 0, 30.0)
    text = registry.render()
    assert 'rest_client_requests_total{code="201",host="host:6443",method="POST"} 1' in text
    assert 'rest_client_requests_total{code="<error>",host="host:6443",method="GET"} 1' in text
    answered = 'rest_client_request_duration_seconds_count{host="host:6443",verb="GET"} 1'
    assert answered in text  # a watch's length is no latency
