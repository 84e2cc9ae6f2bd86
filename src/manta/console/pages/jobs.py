"""The page of a RayJob. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import LABEL_ORIGIN_NAME
from manta.api.times import parse_time
from manta.console.html import tag
from manta.console.pages.page import Section
from manta.console.pages.parts import facts, link, pods_section, tone
from manta.console.plots import Span, timeline
from manta.console.snapshot import Item, Snapshot


def job_sections(snapshot: Snapshot, one: Item) -> Iterator[Section]:
    spec, status = one.object.spec, one.object.status
    cluster = Key(one.key.namespace, str(status.get("rayClusterName") or ""))
    there = snapshot.get("RayCluster", cluster)
    yield Section("facts", "", facts((
        ("Entrypoint", tag("code", spec.get("entrypoint", ""))),
        ("Ray's status", status.get("jobStatus")),
        ("Cluster", link("RayCluster", cluster) if there else cluster.name),
        ("Submitted by", spec.get("submissionMode", "K8sJobMode")),
        ("Attempts", _attempts(spec, status)),
        ("Submission id", status.get("jobId")),
    )))  # fmt: skip
    message = status.get("message")
    if message and tone(one.state) == "bad":
        yield Section("error", "Why it failed", tag("pre", message, class_="log", tabindex="0"))
    yield Section("timeline", "Timeline", timeline(list(_spans(one, snapshot))))
    log = f"/rayjobs/{one.key.namespace}/{one.key.name}/log"
    yield Section(
        "log",
        "Log",
        tag(
            "p",
            tag("a", "Read the log", href=log),
            " or ",
            tag("a", "download it", href=f"{log}?download=1"),
        ),
    )
    pods = [*snapshot.pods_of(cluster), *_submitters(snapshot, one)]
    yield pods_section(pods, snapshot.now, hidden=snapshot.hidden.get("pods", ""))


def _submitters(snapshot: Snapshot, one: Item) -> list[Any]:
    known = {pod.metadata.uid for pods in snapshot.pods_by_cluster.values() for pod in pods}
    return [
        pod
        for pod in snapshot.pods
        if pod.metadata.namespace == one.key.namespace
        and pod.metadata.labels.get(LABEL_ORIGIN_NAME) == one.key.name
        and pod.metadata.uid not in known
    ]


def _attempts(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    failed, succeeded = status.get("failed") or 0, status.get("succeeded") or 0
    most = (spec.get("backoffLimit") or 0) + 1
    return f"{failed} failed, {succeeded} succeeded, at most {most}"


def _spans(one: Item, snapshot: Snapshot) -> Iterator[Span]:
    """What is known of the time of a job: from its creation, of this attempt, and in Ray."""
    status, now = one.object.status, snapshot.now
    info = status.get("rayJobInfo") or {}
    parts = (
        ("since it exists", one.object.metadata.creation_timestamp, status.get("endTime"), "calm"),
        ("this attempt", status.get("startTime"), status.get("endTime"), tone(one.state)),
        ("in Ray", info.get("startTime"), info.get("endTime"), tone(one.state)),
    )
    for name, begin, end, look in parts:
        first, last = _moment(begin), _moment(end) or now
        if first is not None:
            seconds = max(int((last - first).total_seconds()), 0)
            yield Span(name, first, max(first, last), look, f"{timedelta(seconds=seconds)}")


def _moment(text: str | None) -> datetime | None:
    try:
        return parse_time(text or "")
    except ValueError:
        return None
