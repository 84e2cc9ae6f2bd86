"""What the figures of a canary mean."""

from __future__ import annotations

from dataclasses import replace

from manta.api.ray.service import CanaryAnalysis, PrometheusQuery
from manta.rules.canary_analysis import Figures, Judgement, Reading, verdict

LIMITS = CanaryAnalysis(max_error_percent=2, max_p95_milliseconds=200, min_requests=50)
HEALTHY = Reading(old=Figures(500, 1, 20.0), new=Figures(100, 2, 30.0))


def judged(reading: Reading | None, analysis: CanaryAnalysis = LIMITS) -> tuple[Judgement, str]:
    found = verdict(analysis, reading)
    return found.judgement, found.text


def test_figures_within_the_limits_pass() -> None:
    assert judged(HEALTHY)[0] is Judgement.PASS


def test_the_text_of_a_broken_limit_has_the_figures_of_both_clusters() -> None:
    judgement, text = judged(replace(HEALTHY, new=Figures(100, 3, 30.0)))
    assert judgement is Judgement.BROKEN
    assert text == (
        "3.0 % of the responses are errors (limit 2 %); new cluster: 3.0 % errors of 100 requests,"
        " p95 30 ms; old cluster: 0.2 % errors of 500 requests, p95 20 ms"
    )


def test_a_slow_cluster_breaks_its_limit() -> None:
    judgement, text = judged(replace(HEALTHY, new=Figures(100, 0, 201.0)))
    assert judgement is Judgement.BROKEN
    assert "201 ms (limit 200 ms)" in text


def test_few_requests_neither_pass_nor_break() -> None:
    judgement, text = judged(replace(HEALTHY, new=Figures(49, 49, 5000.0)))
    assert (judgement, "49 of 50 requests" in text) == (Judgement.HOLD, True)


def test_what_cannot_be_read_holds_unless_the_rest_breaks_a_limit() -> None:
    assert judged(None)[0] is Judgement.HOLD
    assert judged(replace(HEALTHY, error="no answer"))[0] is Judgement.HOLD
    broken = replace(HEALTHY, error="no answer", new=Figures(100, 50))
    assert judged(broken)[0] is Judgement.BROKEN


STUCK = Reading(old=Figures(300, 0, 20.0), new=Figures(hangs=7), expected=100)


def test_a_cluster_that_answers_nothing_while_requests_wait_is_broken() -> None:
    judgement, text = judged(STUCK)
    assert judgement is Judgement.BROKEN
    assert text.startswith(
        "no request was answered in 60 s, 7 wait or were given up; the old cluster would have answered 100;"
    )


def test_a_cluster_that_answers_nothing_holds_without_enough_other_evidence() -> None:
    for reading in (
        replace(STUCK, expected=49),
        replace(STUCK, new=Figures()),  # nobody asks it: open connections stay with the old one
        replace(STUCK, error="no answer"),
    ):
        assert judged(reading)[0] is Judgement.HOLD


def test_prometheus_passes_holds_or_breaks() -> None:
    limits = CanaryAnalysis(prometheus=PrometheusQuery(query="x", max=0.5))
    assert judged(Reading(queried=0.5), limits)[0] is Judgement.PASS
    assert judged(Reading(queried=0.6), limits)[0] is Judgement.BROKEN
    assert judged(Reading(queried=float("nan")), limits)[0] is Judgement.HOLD
    assert judged(Reading(), limits)[0] is Judgement.HOLD
    assert judged(Reading(query_error="no answer"), limits)[0] is Judgement.HOLD
