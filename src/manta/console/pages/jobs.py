"""The page of a RayJob. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from manta.api.meta import Key
from manta.api.ray.names import LABEL_ORIGIN_NAME
from manta.console.html import EMPTY, Html, join, tag
from manta.console.live import Live, TaskInfo, TasksResult, Unreachable
from manta.console.pages.attempts import clock_note, spans_of
from manta.console.pages.logs import streaming_log
from manta.console.pages.page import Section
from manta.console.pages.parts import address, facts, link, plain, pods_section, tone
from manta.console.plots import timeline
from manta.console.snapshot import Item, Snapshot

MAX_TASKS: Final = 5
MAX_ERROR_CHARACTERS: Final = 4000
"""Characters of one error; its end names the exception."""


def job_sections(snapshot: Snapshot, one: Item, live: Live) -> Iterator[Section]:
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
    failed = message and tone(one.state) == "bad"
    shown = tag("pre", plain(str(message)), class_="log", tabindex="0") if failed else EMPTY
    yield Section("error", "Why it failed", shown)
    yield Section("tasks", "Failed tasks", failed_tasks(live.failed_tasks))
    clock = clock_note(one, snapshot.now)
    note = tag("p", clock, class_="note") if clock else EMPTY
    yield Section("timeline", "Timeline", join([timeline(spans_of(snapshot, one)), note]))
    log = f"{address(one.kind, one.key)}/log"
    links = tag(
        "p",
        tag("a", "Read the log", href=log),
        " or ",
        tag("a", "download it", href=f"{log}?download=1"),
    )
    yield Section("log", "Log", links, fixed=streaming_log(f"{log}?follow=1"))
    pods = [*snapshot.pods_of(cluster), *_submitters(snapshot, one)]
    yield pods_section(pods, snapshot.now, hidden=snapshot.hidden.get("pods", ""))


def failed_tasks(found: TasksResult | None) -> Html:
    """The errors of tasks, newest first, as Ray reports them while the cluster is there."""
    if found is None:
        return EMPTY
    if isinstance(found, Unreachable):
        return tag("p", f"The failed tasks are not known: {found.why}", class_="note")
    newest = sorted(found.tasks, key=lambda one: one.end_time_ms or 0, reverse=True)
    return join([_task(one) for one in newest[:MAX_TASKS]])


def _task(one: TaskInfo) -> Html:
    words = one.error_message or "Ray reports no message"
    name = tag(
        "h3", one.name or "a task without a name", f" ({one.error_type})" if one.error_type else ""
    )
    return join(
        [name, tag("pre", plain(words)[-MAX_ERROR_CHARACTERS:], class_="log", tabindex="0")]
    )


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
