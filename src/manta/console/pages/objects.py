"""The pages of one RayCluster, RayJob, RayService and RayCronJob. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from manta.api.meta import Key
from manta.api.ray.names import LABEL_GROUP, LABEL_NODE_TYPE, LABEL_ORIGIN_NAME, NODE_HEAD
from manta.api.resources import Resource
from manta.api.schedule import parse_schedule
from manta.api.times import format_time, parse_time
from manta.console.html import Html, join, tag
from manta.console.pages.actions import buttons
from manta.console.pages.fleet import waits_for
from manta.console.pages.page import Page, Section, Table
from manta.console.pages.parts import (
    PLURALS,
    SHORT,
    address,
    ago,
    badge,
    conditions_section,
    events_section,
    facts,
    link,
    pod_state,
    pods_section,
    state_badge,
    tone,
)
from manta.console.plots import Line, Span, steps, timeline
from manta.console.snapshot import Item, Snapshot

Allowed = Callable[[str, Resource, str], bool]
NEXT_RUNS: Final = 5


def object_page(snapshot: Snapshot, one: Item, allowed: Allowed) -> Page:
    """The page of any Ray object."""
    sections = {
        "RayCluster": _cluster,
        "RayJob": _job,
        "RayService": _service,
        "RayCronJob": _cron,
    }[one.kind]
    heading = join([
        tag("h1", one.key.name),
        state_badge(one.state),
        tag("p", f"{SHORT[one.kind]} in {one.key.namespace}", class_="lead"),
        buttons(one, allowed),
        tag("p", waits_for(one), class_="why") if waits_for(one) else None,
    ])  # fmt: skip
    return Page(
        one.key.name,
        heading,
        (
            *sections(snapshot, one),
            conditions_section(one.object.status, snapshot.now),
            _events(snapshot, one),
        ),
        crumbs=_crumbs(snapshot, one),
    )


def _crumbs(snapshot: Snapshot, one: Item) -> tuple[tuple[str, str], ...]:
    owner = one.object.metadata.controller
    above = [("Fleet", "/"), (one.key.namespace, f"/?namespace={one.key.namespace}")]
    if owner is not None and owner.kind in PLURALS:
        key = Key(one.key.namespace, owner.name)
        if snapshot.get(owner.kind, key) is not None:
            above.append((owner.name, address(owner.kind, key)))
    return tuple(above)


def _events(snapshot: Snapshot, one: Item) -> Section:
    found = list(snapshot.events_of(one.kind, one.key))
    if one.kind == "RayCluster":
        for pod in snapshot.pods_of(one.key):
            found += snapshot.events_of("Pod", pod.metadata.key)
    return events_section(found, snapshot.now, hidden=snapshot.hidden.get("events", ""))


# ── cluster ──────────────────────────────────────────────────────────────────────────────


def _cluster(snapshot: Snapshot, one: Item) -> Iterator[Section]:
    spec, status = one.object.spec, one.object.status
    head = status.get("head") or {}
    autoscaler = "on" if spec.get("enableInTreeAutoscaling") else "off"
    yield Section("facts", "", facts((
        ("Ray", spec.get("rayVersion")),
        ("Head", head.get("podName")),
        ("Address of the head", head.get("serviceName") or head.get("serviceIP")),
        ("Autoscaler", autoscaler),
        ("Created", ago(one.object.metadata.creation_timestamp, snapshot.now)),
        ("Edit", tag("a", "open its YAML on the page Plan", href=f"/plan?object={address(one.kind, one.key)}")),
        ("Dashboard", tag("code", f"manta dashboard {one.key.name} -n {one.key.namespace}")),
    )))  # fmt: skip
    lines = (Line("ready workers", 0), Line("desired", 1))
    samples = snapshot.samples.get(one.uid, ())
    yield Section("replicas", "Workers over time", steps(samples, lines, snapshot.now))
    yield Section("groups-section", "Groups", table=_groups(snapshot, one))
    yield pods_section(
        snapshot.pods_of(one.key), snapshot.now, hidden=snapshot.hidden.get("pods", "")
    )


def _groups(snapshot: Snapshot, one: Item) -> Table:
    pods = snapshot.pods_of(one.key)
    head = [pod for pod in pods if pod.metadata.labels.get(LABEL_NODE_TYPE) == NODE_HEAD]
    rows = {"group-head": _group("head", _ready(head), "1", "", "group-head")}
    for number, group in enumerate(one.object.spec.get("workerGroupSpecs") or ()):
        name = str(group.get("groupName", ""))
        mine = [pod for pod in pods if pod.metadata.labels.get(LABEL_GROUP) == name]
        bounds = f"{group.get('minReplicas', 0)} to {group.get('maxReplicas', '')}"
        wanted = "suspended" if group.get("suspend") else str(group.get("replicas", 0))
        row = f"group-{number}"
        rows[row] = _group(name, _ready(mine), wanted, bounds, row)
    return Table("groups", ("Group", "Ready Pods", "Wanted", "Bounds"), rows)


def _ready(pods: list[Any]) -> str:
    return f"{sum(pod_state(pod).word == 'ready' for pod in pods)} of {len(pods)}"


def _group(name: str, ready: str, wanted: str, bounds: str, row: str) -> Html:
    cells = (("ready", ready), ("wanted", wanted), ("bounds", bounds))
    return tag(
        "tr",
        tag("td", name, class_="name"),
        [tag("td", one, class_="number", data_label=label) for label, one in cells],
        id=row,
    )


# ── job ──────────────────────────────────────────────────────────────────────────────────


def _job(snapshot: Snapshot, one: Item) -> Iterator[Section]:
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


# ── service ──────────────────────────────────────────────────────────────────────────────


def _service(snapshot: Snapshot, one: Item) -> Iterator[Section]:
    status = one.object.status
    sides = [
        (role, status.get(field) or {})
        for role, field in (("active", "activeServiceStatus"), ("pending", "pendingServiceStatus"))
    ]
    shown = [
        (f"{role} cluster", _side(snapshot, one.key.namespace, side))
        for role, side in sides
        if side.get("rayClusterName")
    ]
    yield Section("facts", "", facts((
        *shown,
        ("Endpoints", str(status.get("numServeEndpoints", 0))),
        ("Upgrade", (one.object.spec.get("upgradeStrategy") or {}).get("type") or "NewCluster"),
        ("Created", ago(one.object.metadata.creation_timestamp, snapshot.now)),
    )))  # fmt: skip
    samples = snapshot.samples.get(one.uid, ())
    traffic = (Line("active, % of traffic", 0), Line("pending, % of traffic", 2))
    yield Section("traffic", "Traffic over time", steps(samples, traffic, snapshot.now, 100))
    capacity = (Line("active, % of capacity", 1), Line("pending, % of capacity", 3))
    yield Section("capacity", "Capacity over time", steps(samples, capacity, snapshot.now, 100))
    rows = dict(row for role, side in sides for row in _applications(role, side))
    columns = ("Application", "Deployment", "State", "Ray says")
    yield Section(
        "applications-section",
        "Applications",
        table=Table("applications", columns, rows, "Serve has reported none yet"),
    )


def _side(snapshot: Snapshot, namespace: str, side: Mapping[str, Any]) -> Html:
    key = Key(namespace, str(side["rayClusterName"]))
    name = link("RayCluster", key) if snapshot.get("RayCluster", key) else join(key.name)
    traffic, capacity = side.get("trafficRoutedPercent"), side.get("targetCapacity")
    shares = [
        f"{words} {value} %"
        for words, value in (("traffic", traffic), ("capacity", capacity))
        if value is not None
    ]
    return join([name, f" ({', '.join(shares)})" if shares else ""])


def _applications(role: str, side: Mapping[str, Any]) -> Iterator[tuple[str, Html]]:
    for name, found in (side.get("applicationStatuses") or {}).items():
        parts = [("", found), *(found.get("serveDeploymentStatuses") or {}).items()]
        for deployment, state in parts:
            row = f"app-{role}-{name}-{deployment}"
            word = str(state.get("status", ""))
            look = {"RUNNING": "good", "HEALTHY": "good"}.get(
                word, "bad" if "FAIL" in word or "UNHEALTHY" in word else "wait"
            )
            yield (
                row,
                tag(
                    "tr",
                    tag(
                        "td",
                        name if not deployment else "",
                        f" ({role})" if not deployment else None,
                        class_="name",
                    ),
                    tag("td", deployment),
                    tag("td", badge(word.lower(), look)),
                    tag("td", state.get("message", ""), class_="words"),
                    id=row,
                ),
            )


# ── cron ─────────────────────────────────────────────────────────────────────────────────


def _cron(snapshot: Snapshot, one: Item) -> Iterator[Section]:
    spec, status = one.object.spec, one.object.status
    yield Section("facts", "", facts((
        ("Schedule", tag("code", spec.get("schedule", ""))),
        ("Time zone", spec.get("timeZone") or "UTC"),
        ("Last run", ago(status.get("lastScheduleTime"), snapshot.now)),
        ("Created", ago(one.object.metadata.creation_timestamp, snapshot.now)),
    )))  # fmt: skip
    yield Section("next", "Next runs", _next_runs(spec, snapshot.now))
    runs = snapshot.owned(one, "RayJob")
    rows = {f"run-{run.uid}": _run(run, snapshot) for run in runs}
    columns = ("Job", "State", "Message", "Started")
    yield Section("runs-section", "Past runs", table=Table("runs", columns, rows, "no run yet"))


def _next_runs(spec: Mapping[str, Any], now: datetime) -> Html:
    if spec.get("suspend"):
        return tag("p", "suspended: no further run", class_="note")
    try:
        schedule = parse_schedule(str(spec.get("schedule", "")), spec.get("timeZone"))
    except ValueError as error:
        return tag("p", f"the schedule cannot be read: {error}", class_="problem")
    moments: list[datetime] = []
    moment: datetime | None = now
    while moment is not None and len(moments) < NEXT_RUNS:
        moment = schedule.next_after(moment)
        if moment is not None:
            moments.append(moment)
    return tag(
        "ul",
        [tag("li", tag("time", format_time(one), datetime=format_time(one))) for one in moments],
        class_="steps",
    )


def _run(run: Item, snapshot: Snapshot) -> Html:
    return tag(
        "tr",
        tag("td", link("RayJob", run.key), class_="name"),
        tag("td", state_badge(run.state)),
        tag("td", run.state.why, class_="words"),
        tag("td", ago(run.object.metadata.creation_timestamp, snapshot.now)),
        id=f"run-{run.uid}",
    )
