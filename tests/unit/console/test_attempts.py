"""The attempts of a RayJob on a timeline."""

from __future__ import annotations

import msgspec

from manta.console.pages.attempts import spans_of
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


def cluster(what: str, name: str, minute: int, about: Item = JOB, uid: str = "") -> Event:
    document = {
        "metadata": {"name": f"{what}-{name}", "creationTimestamp": f"2026-11-18T11:{minute}:00Z"},
        "involvedObject": {"kind": "RayJob", "namespace": "default", "name": about.key.name, "uid": uid or about.uid},
        "reason": f"{what}RayCluster",
        "message": f"{what} RayCluster default/{name}" + (": it failed" if what == "Deleted" else ""),
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


def test_a_clock_of_ray_that_is_wrong_does_not_stretch_the_timeline() -> None:
    for begin, end in (
        ("2025-01-01T01:23:00Z", "2025-01-01T01:24:00Z"),
        ("2027-01-01T01:23:00Z", ""),
    ):
        info = {"startTime": begin, "endTime": end}
        job = ray("RayJob", "train", {"jobDeploymentStatus": "Failed", "endTime": "2026-11-18T11:58:00Z", "rayJobInfo": info})  # fmt: skip
        spans = spans_of(snapshot(job), job)
        created = spans[0]
        assert all(created.begin <= one.begin <= one.end <= created.end for one in spans)
