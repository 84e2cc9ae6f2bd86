"""What the autoscaler of a cluster waits for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from manta.console.html import EMPTY, Html, join, tag
from manta.console.live import AutoscalerReport, Demand, Live, Unreachable
from manta.console.pages.page import Section, Table
from manta.console.pages.parts import facts
from manta.console.plots import Line, steps
from manta.console.snapshot import Item, Snapshot

_LINES = (Line("tasks, actors and placement groups that wait", 0), Line("nodes on their way", 1))


def demand_sections(snapshot: Snapshot, one: Item, live: Live) -> Iterator[Section]:
    """Plot, numbers and list; hidden if the cluster has no autoscaler."""
    autoscaler = bool(one.object.spec.get("enableInTreeAutoscaling"))
    yield Section("autoscaler", "Autoscaler", _report(snapshot, live) if autoscaler else EMPTY)
    if autoscaler:
        yield Section("demands-section", "Demands", table=_table(live))


def _report(snapshot: Snapshot, live: Live) -> Html:
    report = live.autoscaler
    if report is None:
        words = "Waiting until the head is ready." if not live.asks else "Loading …"
        return tag("p", words, class_="note")
    if isinstance(report, Unreachable):
        return tag(
            "p", f"The status of the autoscaler is not available: {report.why}", class_="problem"
        )
    plot = tag("div", steps(live.waiting, _LINES, snapshot.now)) if live.waiting else EMPTY
    shown = (
        ("Active nodes", _list(report.active)),
        ("Idle nodes", _list(report.idle)),
        ("Nodes on their way", _list(report.pending)),
        ("Recent failures", _list(report.failures)),
        ("In use", _list(report.usage)),
        ("Asked for by request_resources", _list(report.constraints)),
    )
    return join([plot, facts(shown)])


def _list(lines: Sequence[str]) -> Html | None:
    return join([tag("div", one) for one in lines]) if lines else None


def _table(live: Live) -> Table:
    report = live.autoscaler
    found = report.demands if isinstance(report, AutoscalerReport) else ()
    rows = {f"demand-{number}": _demand(one, number) for number, one in enumerate(found)}
    empty = "nothing waits for resources" if isinstance(report, AutoscalerReport) else "not known"
    return Table("demands", ("Resources", "How many", "Of"), rows, empty)


def _demand(one: Demand, number: int) -> Html:
    return tag(
        "tr",
        tag("td", tag("code", one.resources), class_="name"),
        tag("td", one.count, class_="number", data_label="how many"),
        tag("td", one.kind),
        id=f"demand-{number}",
    )
