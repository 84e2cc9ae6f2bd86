"""The page of a RayCronJob. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from manta.api.schedule import parse_schedule
from manta.api.times import format_time
from manta.console.html import Html, tag
from manta.console.live import Live
from manta.console.pages.page import Section, Table
from manta.console.pages.parts import ago, facts, link, state_badge
from manta.console.snapshot import Item, Snapshot

NEXT_RUNS: Final = 5


def cron_sections(snapshot: Snapshot, one: Item, _live: Live) -> Iterator[Section]:
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
