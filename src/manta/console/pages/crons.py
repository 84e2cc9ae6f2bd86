"""The page of a RayCronJob. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from manta.api.ages import age
from manta.api.schedule import load_zone, parse_schedule
from manta.api.times import format_time, parse_time
from manta.console.html import Html, tag
from manta.console.live import Live
from manta.console.pages.page import Section, Table
from manta.console.pages.parts import ago, facts, link, since, state_badge
from manta.console.snapshot import Item, Snapshot

NEXT_RUNS: Final = 5
MAX_SKEW: Final = timedelta(days=1)
"""The most by which the clock of the operator may differ."""


def cron_sections(snapshot: Snapshot, one: Item, _live: Live) -> Iterator[Section]:
    spec, status = one.object.spec, one.object.status
    yield Section("facts", "", facts((
        ("Schedule", tag("code", spec.get("schedule", ""))),
        ("Time zone", spec.get("timeZone") or "UTC"),
        ("Last run", since(status.get("lastScheduleTime"), snapshot.now)),
        ("Created", since(one.object.metadata.creation_timestamp, snapshot.now)),
    )))  # fmt: skip
    yield Section("next", "Next runs", _next_runs(one, snapshot.now))
    runs = snapshot.owned(one, "RayJob")
    rows = {f"run-{run.uid}": _run(run, snapshot) for run in runs}
    columns = ("Job", "State", "Message", "Age")
    yield Section("runs-section", "Past runs", table=Table("runs", columns, rows, "no run yet"))


def next_runs(one: Item, now: datetime, most: int = NEXT_RUNS) -> list[datetime]:
    """The next runs as the operator counts them: `@every 2h` since the last run. None while suspended. Raises ValueError."""
    spec, status = one.object.spec, one.object.status
    if spec.get("suspend"):
        return []
    schedule = parse_schedule(str(spec.get("schedule", "")), spec.get("timeZone"))
    since = parse_time(status.get("lastScheduleTime") or one.object.metadata.creation_timestamp)
    if since > now + MAX_SKEW:
        raise ValueError(f"the last run is in the future: {format_time(since)}")
    moment = schedule.next_after(schedule.latest(since, now) or since)
    moments: list[datetime] = []
    while moment is not None and len(moments) < most:
        moments.append(moment)
        moment = schedule.next_after(moment)
    return moments


def next_run_words(one: Item, now: datetime) -> str:
    """`next run in 5h`; empty if there is none, or nobody can read the schedule."""
    try:
        moments = next_runs(one, now, 1)
    except ValueError:
        return ""
    return f"next run in {age(now, moments[0])}" if moments else ""


def _next_runs(one: Item, now: datetime) -> Html:
    try:
        moments = next_runs(one, now)
    except ValueError as error:
        return tag("p", f"the schedule cannot be read: {error}", class_="problem")
    if one.object.spec.get("suspend"):
        return tag("p", "suspended: no further run", class_="note")
    zone = str(one.object.spec.get("timeZone") or "UTC")
    return tag("ul", [tag("li", _moment(moment, zone, now)) for moment in moments], class_="steps")


def _moment(moment: datetime, zone: str, now: datetime) -> Html:
    """`in 5h: Thu 2026-11-19 03:00 Europe/Berlin`; the tooltip has the time in UTC."""
    there = moment.astimezone(load_zone(zone)).strftime("%a %Y-%m-%d %H:%M")
    words = f"in {age(now, moment)}: {there} {zone}"
    return tag("time", words, datetime=format_time(moment), title=format_time(moment))


def _run(run: Item, snapshot: Snapshot) -> Html:
    return tag(
        "tr",
        tag("td", link("RayJob", run.key), class_="name"),
        tag("td", state_badge(run.state)),
        tag("td", run.state.why, class_="words"),
        tag("td", ago(run.object.metadata.creation_timestamp, snapshot.now)),
        id=f"run-{run.uid}",
    )
