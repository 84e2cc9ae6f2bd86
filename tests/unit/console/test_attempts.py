"""The attempts of a RayJob on a timeline."""

from __future__ import annotations

import msgspec
import pytest

from manta.console.live import NOTHING
from manta.console.pages.attempts import clock_note, spans_of
from manta.console.pages.jobs import job_sections
from manta.console.snapshot import Item
from manta.console.views import Event
from support.console import ray, snapshot

JOB = ray(
    "RayJob",
    "train",
    {
        "jobDeploymentStatus": "Running",
        "rayClusterName": "train-c",
        "startTime": "2026-11-18T11:55:00Z",
        "failed": 2,
        "rayJobInfo": {"startTime": "2026-11-18T11:56:00Z"},
    },
)


def cluster(
    what: str, name: str, minute: int, about: Item = JOB, uid: str = "", why: str = "it failed"
) -> Event:
    document = {
        "metadata": {"name": f"{what}-{name}", "creationTimestamp": f"2026-11-18T11:{minute}:00Z"},
        "involvedObject": {"kind": "RayJob", "namespace": "default", "name": about.key.name, "uid": uid or about.uid},
        "reason": f"{what}RayCluster",
        "message": f"{what} RayCluster default/{name}" + (f": {why}" if what == "Deleted" else ""),
    }  # fmt: skip
    return msgspec.convert(document, Event)


def shown(*events: Event) -> list[tuple[str, str, str, str]]:
    spans = spans_of(snapshot(JOB, events=events), JOB)
    return [(one.name, f"{one.begin:%M}", f"{one.end:%M}", one.look) for one in spans]


def test_earlier_attempts_are_known_from_the_events_of_their_clusters() -> None:
    assert shown(
        cluster("Created", "train-a", 41),
        cluster("Deleted", "train-a", 44),
        cluster("Created", "train-b", 45),
        cluster("Created", "train-c", 54),
    ) == [
        ("since created", "40", "00", "calm"),
        ("attempt 1", "41", "44", "bad"),
        ("attempt 2", "45", "55", "bad"),
        ("attempt 3", "55", "00", "good"),
        ("in Ray", "56", "00", "good"),
    ]


def test_without_events_only_the_last_attempt_is_shown() -> None:
    assert [name for name, *_ in shown()] == ["since created", "attempt 3", "in Ray"]


def test_an_earlier_job_of_the_same_name_has_no_part_in_it() -> None:
    assert len(shown(cluster("Created", "old", 10, uid="another"))) == 3


def test_a_suspension_is_no_failure() -> None:
    job = ray("RayJob", "train", {"jobDeploymentStatus": "Running", "rayClusterName": "train-d", "startTime": "2026-11-18T11:55:00Z", "failed": 1})  # fmt: skip
    events = (
        cluster("Created", "train-a", 41),
        cluster("Deleted", "train-a", 43, why="the RayJob is suspended"),
        cluster("Created", "train-b", 45),
        cluster("Deleted", "train-b", 46, why="a new attempt begins"),
        cluster("Created", "train-c", 47),
        cluster("Deleted", "train-c", 49, why="the RayJob is suspended"),
    )
    spans = spans_of(snapshot(job, events=events), job)
    assert [(one.name, f"{one.begin:%M}", f"{one.end:%M}", one.look) for one in spans] == [
        ("since created", "40", "00", "calm"),
        ("attempt 1, suspended", "41", "43", "calm"),
        ("attempt 1", "45", "46", "bad"),
        ("attempt 2, suspended", "47", "49", "calm"),
        ("attempt 2", "55", "00", "good"),
    ]


def test_an_end_of_unknown_cause_is_no_failure() -> None:
    job = ray("RayJob", "train", {"jobDeploymentStatus": "Suspended", "failed": 0})
    spans = spans_of(snapshot(job, events=[cluster("Created", "train-a", 41)]), job)
    assert [(one.name, one.look) for one in spans[1:]] == [("attempt 1, ended", "calm")]


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("2025-01-01T01:23:00Z", "2025-01-01T01:24:00Z"),
        ("2027-01-01T01:23:00Z", ""),
        ("2026-11-18T11:45:00Z", "2026-11-18T12:45:00Z"),
    ],
)
def test_a_clock_of_ray_that_is_wrong_is_named_and_not_drawn(begin: str, end: str) -> None:
    job = ended_in_ray(begin, end)
    assert [one.name for one in spans_of(snapshot(job), job)] == ["since created"]
    words = clock_note(job, snapshot().now)
    assert begin[:10] in words
    assert "the clock of its head is wrong" in words
    [page] = [one for one in job_sections(snapshot(job), job, NOTHING) if one.id == "timeline"]
    assert words in str(page.body)


def test_a_job_that_ended_in_the_last_year_of_all_is_drawn() -> None:
    status = {
        "endTime": "9999-12-31T23:59:59Z",
        "rayJobInfo": {"startTime": "2026-11-18T11:45:00Z"},
    }
    job = ray("RayJob", "train", status)
    assert clock_note(job, snapshot().now) == ""
    assert [one.name for one in spans_of(snapshot(job), job)] == ["since created", "in Ray"]


def test_a_clock_of_ray_that_is_a_little_off_is_cut_off() -> None:
    job = ended_in_ray("2026-11-18T11:39:30Z", "2026-11-18T11:58:30Z")
    created, ray_span = spans_of(snapshot(job), job)
    assert (ray_span.begin, ray_span.end) == (created.begin, created.end)
    assert clock_note(job, snapshot().now) == ""


def ended_in_ray(begin: str, end: str) -> Item:
    info = {"startTime": begin, "endTime": end}
    return ray("RayJob", "train", {"jobDeploymentStatus": "Failed", "endTime": "2026-11-18T11:58:00Z", "rayJobInfo": info})  # fmt: skip
