"""Traces: a span for each reconcile, phase and request, and nothing at all when they are off (P4)."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key, Object
from manta.api.resources import CONFIG_MAPS
from manta.client.dashboard import TracedTransport
from manta.kube.client import Client
from manta.localplane.inprocess import InProcessTransport
from manta.ray.models import Target, Unreachable
from manta.ray.transport import Reply
from manta.runtime import logging as logs
from manta.runtime import otel, tracing
from manta.runtime.clock import SystemClock
from manta.runtime.controller import Controller, Watch, own_key
from manta.runtime.manager import Manager
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry
from support.plane import memory_plane
from support.virtual import running

OFF = """
import sys
import manta.cli.operator, manta.operator.process, manta.client.dashboard
from manta.runtime import tracing
with tracing.span("x", a=1):
    tracing.request("get", "pods", 200, 0.1)
    tracing.fail("x")
assert tracing.current_trace() == tracing.last_trace() == ""
assert tracing.span("x") is tracing.span("y")
found = [one for one in sys.modules if one.startswith("opentelemetry")]
assert not found, found
"""


@pytest.fixture
def spans() -> Iterator[Any]:
    pytest.importorskip("opentelemetry.sdk", reason="the extra [otel] is not installed")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    tracing.use(otel.open_tracer("1.2", SystemClock(), SimpleSpanProcessor(exporter)))
    yield exporter
    tracing.shutdown()
    tracing.use(None)


def test_nothing_is_imported_while_traces_are_off() -> None:
    subprocess.run([sys.executable, "-c", OFF], check=True)


@pytest.mark.parametrize(
    ("environment", "flag", "wanted"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, False, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4318"}, False, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, True, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, True, False),
    ],
)
def test_traces_are_switched_on_as_elsewhere(
    environment: dict[str, str], flag: bool, wanted: bool
) -> None:
    assert otel.is_wanted(environment, flag=flag) is wanted


async def test_a_reconcile_is_one_trace_with_its_phases_and_requests(spans: Any) -> None:
    done = asyncio.Event()
    async with memory_plane() as plane:
        client = Client(InProcessTransport(plane.app), observer=tracing.request)
        manager = Manager(client, plane.clock, Random(1))
        maps = manager.informer(CONFIG_MAPS, Object, fields="metadata.name=x")

        async def reconcile(key: Key) -> Done | Retry:
            with phase(Phase.OBSERVE):
                await client.get(CONFIG_MAPS, key)
            if not done.is_set():
                done.set()
                with phase(Phase.PLAN):
                    raise ZeroDivisionError
            return Done()

        manager.add(Controller("toy", reconcile, [Watch(maps, own_key)]))
        async with running(manager.run()):
            await plane.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "x"}})
            async with asyncio.timeout(20):
                while len(_named(spans, "reconcile")) < 2:
                    await asyncio.sleep(0.02)
    first = _named(spans, "reconcile")[0]
    inside = {one.name: one for one in _of_trace(spans, first)}
    assert set(inside) == {"reconcile", "observe", "plan", "get configmaps"}
    assert inside["get configmaps"].parent.span_id == inside["observe"].context.span_id
    assert dict(first.attributes) == {"controller": "toy", "object": "default/x"}
    assert first.status.description.startswith("plan failed: ZeroDivisionError (test_tracing.py:")
    assert not inside["plan"].status.is_ok
    text, _ = manager.registry.rendered("application/openmetrics-text; version=1.0.0")
    traces = {f"{one.context.trace_id:032x}" for one in _named(spans, "reconcile")}
    assert traces & set(re.findall(r'trace_id="(\w+)"', text))
    assert dict(first.resource.attributes)["service.name"] == "manta-operator"


def _named(spans: Any, name: str) -> list[Any]:
    return [one for one in spans.get_finished_spans() if one.name == name]


def _of_trace(spans: Any, root: Any) -> list[Any]:
    trace = root.context.trace_id
    return [one for one in spans.get_finished_spans() if one.context.trace_id == trace]


async def test_a_question_to_a_dashboard_has_a_span_that_says_how_it_ended(spans: Any) -> None:
    class Silent:
        async def send(self, *_: object) -> Reply | Unreachable:
            return Unreachable("no answer")

        async def probe(self, _: str) -> Reply | Unreachable:
            return Reply(200, b"")

        async def close(self) -> None: ...

    transport = TracedTransport(Silent())
    await transport.send(Target("ns", "svc", "host", token="secret"), "GET", "/api/version")
    await transport.probe("http://10.0.0.1:8000/-/healthz")
    asked, probed = spans.get_finished_spans()
    assert asked.name == "dashboard GET"
    assert asked.status.description == "no answer"
    assert "secret" not in str(asked.attributes)
    assert probed.status.status_code.name == "UNSET"


def test_a_line_of_the_log_names_its_trace(spans: Any) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logs.formatter("json"))
    logger = logging.getLogger("test-tracing")
    logger.addHandler(handler)
    logger.warning("outside")
    with tracing.span("x"):
        trace = tracing.current_trace()
        logger.warning("inside")
    logger.removeHandler(handler)
    outside, inside = map(json.loads, out.getvalue().splitlines())
    assert "trace_id" not in outside
    assert inside["trace_id"] == trace
    assert len(trace) == 32


def test_a_request_that_has_ended_is_a_span_and_a_watch_is_none(
    spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime(2026, 1, 1, tzinfo=UTC))
    tracing.request("watch", "pods", 200, 300.0)
    tracing.request("get", "pods", 404, 1.5)
    [span] = spans.get_finished_spans()
    assert span.name == "get pods"
    assert dict(span.attributes) == {"k8s.verb": "get", "k8s.resource": "pods", "http.status": 404}
    assert span.status.description == "status 404"
    end = 1_767_225_600 * 10**9
    assert (span.start_time, span.end_time) == (end - 1_500_000_000, end)


def test_without_a_tracer_a_request_is_not_recorded() -> None:
    assert tracing.current_trace() == ""
    tracing.request("get", "pods", 200, 0.1)
