"""The tracer of `runtime/tracing.py` over OpenTelemetry: exports spans by OTLP over HTTP.

Only this module imports OpenTelemetry, and only when traces are enabled: by `--tracing`, or by a standard
variable that names a collector. The standard `OTEL_*` variables configure the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from manta.runtime.clock import Clock
from manta.runtime.tracing import Attributes

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
CURE: Final = "install the extra: pip install 'manta-ray-operator[otel]'"


class TracingError(ValueError):
    """Traces are enabled but not possible. The message says what to do."""


def is_wanted(environment: Mapping[str, str], *, flag: bool) -> bool:
    """Whether traces are enabled: by `--tracing` or a collector in the environment. OTEL_SDK_DISABLED and
    OTEL_TRACES_EXPORTER=none disable them."""
    disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return False
    return flag or any(environment.get(one) for one in ENDPOINTS)


def open_tracer(version: str, clock: Clock, processor: SpanProcessor | None = None) -> OtelTracer:
    """The tracer. Raises TracingError. `processor` replaces the OTLP exporter, for tests."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError as error:
        raise TracingError(f"OpenTelemetry is not installed ({error}): {CURE}") from error
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override these.
    defaults = {"service.name": "manta-operator", "service.version": version}
    resource = Resource(defaults).merge(_from_environment())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(processor or _exporting())
    return OtelTracer(provider, clock)


def _from_environment() -> Resource:
    from opentelemetry.sdk.resources import OTELResourceDetector

    return OTELResourceDetector().detect()


def _exporting() -> SpanProcessor:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise TracingError(f"the OTLP exporter is not installed ({error}): {CURE}") from error
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return BatchSpanProcessor(OTLPSpanExporter())


class OtelTracer:
    def __init__(self, provider: TracerProvider, clock: Clock) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._provider = provider
        self._clock = clock
        self._tracer = provider.get_tracer("manta")

    def span(self, name: str, attributes: Attributes) -> AbstractContextManager[object]:
        return self._tracer.start_as_current_span(name, attributes=attributes)

    def finished(self, name: str, seconds: float, attributes: Attributes, error: str) -> None:
        end = round(self._clock.now().timestamp() * 1e9)
        begin = end - round(seconds * 1e9)
        span = self._tracer.start_span(name, attributes=attributes, start_time=begin)
        if error:
            span.set_status(self._trace.StatusCode.ERROR, error)
        span.end(end_time=end)

    def fail(self, why: str) -> None:
        self._trace.get_current_span().set_status(self._trace.StatusCode.ERROR, why)

    def trace_id(self) -> str:
        context = self._trace.get_current_span().get_span_context()
        return format(context.trace_id, "032x") if context.is_valid else ""

    def shutdown(self) -> None:
        self._provider.shutdown()
