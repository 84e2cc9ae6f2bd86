"""What /metrics tells, and what it never tells."""

from __future__ import annotations

from manta.httpserver.messages import HttpRequest
from support.plane import memory_plane


async def test_requests_are_counted_by_kind_and_never_by_name() -> None:
    async with memory_plane() as plane:
        telemetry = plane.app.telemetry
        where = "/api/v1/namespaces/default/secrets/private-name"
        telemetry.record(HttpRequest("GET", where), 404, 0.002)
        telemetry.record(HttpRequest("GET", f"{where}/invented"), 404, 0.002)
        telemetry.record(HttpRequest("GET", "/api/v1/secrets", (("watch", "1"),)), 200, None)
        telemetry.record(HttpRequest("GET", "/what/ever/comes"), 404, 0.1)
        text = telemetry.text()
    labels = 'code="404",group="",resource="secrets",subresource="",verb="GET",version="v1"'
    assert f"apiserver_request_total{{{labels}}} 1.0" in text
    assert 'subresource="unknown"' in text
    assert 'verb="WATCH"' in text
    assert "manta_store_revision" in text
    for hidden in ("private-name", "invented", "what"):
        assert hidden not in text.replace("what they asked for", "")


async def test_a_stream_has_no_duration_yet() -> None:
    async with memory_plane() as plane:
        telemetry = plane.app.telemetry
        telemetry.record(HttpRequest("GET", "/api/v1/pods", (("watch", "1"),)), 200, None)
        lines = telemetry.text().splitlines()
    assert not any("duration" in line and 'verb="WATCH"' in line for line in lines)
