"""A short form of `make fuzz`: nothing crashes, hangs, or is passed over in silence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fuzz.apiserver import fuzz, judge
from fuzz.corpus import Kind
from fuzz.differences import DIFFERENCES, reason_for
from fuzz.requests import Request, generate
from fuzz.resources import fuzz_resources
from fuzz.reviews import fuzz_reviews
from fuzz.servers import embedded
from fuzz.wire import CLOSED, HANGS, Answer

SEED = 20261116
PODS = Kind("v1", "pods", "Pod", namespaced=True, verbs=("create", "get", "patch"))


@pytest.mark.timeout(300)
def test_two_hundred_mutated_requests_find_nothing(tmp_path: Path) -> None:
    with embedded(tmp_path / "plane", "--fake-nodes=1") as server:
        report, neighbour = asyncio.run(fuzz(server, SEED, 200))
    assert report.findings == []
    assert neighbour.failures == []
    assert report.requests == 200
    assert report.statuses["2xx"] > 20, "the mutations are too wild to reach anything"


@pytest.mark.timeout(300)
def test_a_hundred_odd_custom_resources_find_nothing() -> None:
    tried, findings = fuzz_resources(SEED, 100)
    assert findings == []
    assert tried["accepted RayCluster"] > 20


def test_three_hundred_odd_reviews_find_nothing() -> None:
    tried, findings = fuzz_reviews(SEED, 300)
    assert findings == []
    assert tried["allowed"] > 30
    assert tried["denied"] > 30


def test_a_finding_can_be_shown_again_by_its_seed_and_number() -> None:
    again = generate(SEED, 7, [PODS])
    assert again == generate(SEED, 7, [PODS])
    assert again != generate(SEED, 8, [PODS])


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Answer(200), False),
        (Answer(422), False),
        (Answer(500, b'{"reason":"InternalError"}'), True),
        (Answer(500, b"resourceVersion: Invalid value"), False),
        (Answer(500, b"target.kind: Unsupported value"), False),
        (Answer(HANGS), True),
        (Answer(CLOSED), True),
    ],
)
def test_what_counts_as_a_finding(answer: Answer, found: bool) -> None:
    request = Request(1, "create", PODS, "POST", "/api/v1/namespaces/fuzz/pods")
    assert bool(judge(request, answer)) is found


@pytest.mark.parametrize(
    ("accept", "answer", "known"),
    [
        ("application/vnd.kubernetes.protobuf", Answer(406), True),
        ("application/json", Answer(406), False),
        ("application/json", Answer(400, b"nested more than 100 levels deep"), True),
        ("application/json", Answer(201), False),
    ],
)
def test_only_differences_with_a_reason_are_known(accept: str, answer: Answer, known: bool) -> None:
    request = Request(1, "create", PODS, "POST", "/api/v1/pods", {"Accept": accept})
    assert bool(reason_for(request, answer, Answer(422))) is known


def test_every_known_difference_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "internals" / "api-differences.md"
    text = page.read_text().lower()
    assert [one.reason for one in DIFFERENCES if one.reason.lower() not in text] == []
