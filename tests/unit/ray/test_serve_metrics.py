"""Serve's metrics as Ray publishes them, and the answers of Prometheus."""

from __future__ import annotations

import pytest

from manta.ray.prometheus import number_in
from manta.ray.serve_metrics import Counts, parse_serve_metrics, total
from manta.ray.transport import Reply

PAGE = b"""\
# HELP ray_serve_num_http_requests The number of HTTP requests processed.
# TYPE ray_serve_num_http_requests counter
ray_serve_num_http_requests_total{application="app",method="GET",route="/",status_code="200"} 90.0
ray_serve_num_http_requests_total{application="app",method="GET",route="/",status_code="404"} 6.0
ray_serve_num_http_requests_total{application="app",method="GET",route="/",status_code="503"} 4.0
ray_serve_num_http_error_requests_total{error_code="503"} 10.0
ray_serve_http_request_latency_ms_bucket{le="10.0",route="/"} 50.0
ray_serve_http_request_latency_ms_bucket{le="20.0",route="/"} 90.0
ray_serve_http_request_latency_ms_bucket{le="40.0",route="/"} 100.0
ray_serve_http_request_latency_ms_bucket{le="+Inf",route="/"} 100.0
ray_node_cpu_utilization{ip="10.0.0.1"} 3.0
"""


def test_requests_errors_and_latencies_are_read_from_a_page() -> None:
    found = parse_serve_metrics(PAGE)
    assert (found.requests, found.errors) == (100, 4)
    assert found.p95() == 30.0


def test_a_counter_under_both_names_counts_once() -> None:
    twice = PAGE + b'ray_serve_num_http_requests{status_code="200"} 90.0\n'
    assert parse_serve_metrics(twice).requests == 100
    older = PAGE.replace(b"_total", b"")
    assert parse_serve_metrics(older).requests == 100


def test_requests_that_wait_or_were_given_up_are_no_answers() -> None:
    more = (
        PAGE
        + b'ray_serve_num_http_requests_total{status_code="499"} 5.0\n'
        + b'ray_serve_num_ongoing_http_requests{node_id="a",node_ip_address="10.0.0.1"} 3.0\n'
    )
    found = parse_serve_metrics(more)
    assert (found.requests, found.errors, found.given_up, found.ongoing) == (100, 4, 5, 3)


def test_a_request_that_takes_longer_than_serve_allows_is_an_error() -> None:
    found = parse_serve_metrics(PAGE + b'ray_serve_num_http_requests_total{status_code="408"} 5.0')
    assert (found.requests, found.errors) == (105, 9)


def test_a_page_without_requests_counts_zero() -> None:
    found = parse_serve_metrics(b"ray_node_cpu_count 1\n")
    assert (found.requests, found.p95()) == (0, None)


@pytest.mark.parametrize("number", [b"many", b"inf", b"nan", b"-1", b"1e999"])
def test_a_page_that_is_no_number_is_refused(number: bytes) -> None:
    with pytest.raises(ValueError, match=r"could not convert|is not a count"):
        parse_serve_metrics(b'ray_serve_num_http_requests_total{status_code="200"} ' + number)


def test_a_bucket_without_a_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a bound"):
        parse_serve_metrics(b'ray_serve_http_request_latency_ms_bucket{le="nan"} 1\n')


def test_a_window_is_the_difference_of_two_pages() -> None:
    before, after = Counts(10, 1, {10.0: 10}), Counts(30, 2, {10.0: 20, float("inf"): 30})
    assert after.since(before) == Counts(20, 1, {10.0: 10, float("inf"): 30})
    assert before.since(after) == before, "it restarted"
    waiting = Counts(30, 2, given_up=4, ongoing=2)
    assert waiting.since(Counts(30, 2, given_up=1, ongoing=9)) == Counts(given_up=3, ongoing=2)
    assert waiting.since(Counts(30, 2, given_up=5)) == waiting, "it restarted"


def test_counts_of_several_proxies_are_added() -> None:
    one = Counts(10, 1, {10.0: 10})
    assert total([one, one]) == Counts(20, 2, {10.0: 20})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}}', 0.5),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"3"]}]}}',
            3.0,
        ),
        (
            b'{"status":"success","data":{"resultType":"vector","result":[]}}',
            "the query returns 0 series; it must return one",
        ),
        (b'{"status":"error","error":"parse error"}', "it answered 200: parse error"),
        (b"<html>", "it answered 200, not in JSON"),
        (b'{"status":"success","data":{"resultType":"string","result":[1,"x"]}}', None),
    ],
)
def test_the_answer_of_prometheus_is_one_number(body: bytes, expected: float | str | None) -> None:
    assert number_in(Reply(200, body)) == (expected or "the query returns no number")
