"""The page of the operator: its queue, how much it does, how long that takes, and what fails. Pure."""

from __future__ import annotations

from manta.console.html import Html, join, tag
from manta.console.operator_metrics import Controller, Rates, Reading, rates
from manta.console.operators import OperatorView
from manta.console.pages.page import LIVE_REFRESH_SECONDS, Page, Section, Table
from manta.console.pages.parts import badge, facts, pods_section
from manta.console.plots import Line, steps
from manta.console.snapshot import Snapshot

COLUMNS = (
    "Controller", "Queued", "Waits for a timer", "Running", "Reconciles/s", "95 % take", "Reconciles", "Failures",
)  # fmt: skip


def operator_page(snapshot: Snapshot, view: OperatorView) -> Page:
    last = view.readings[-1] if view.readings else None
    before = view.readings[-2] if len(view.readings) > 1 else None
    heading = join([tag("h1", "Operator"), _problems(view, last)])
    sections = [_facts(view, before, last)] if last is not None else []
    if last is not None:
        sections.append(Section("controllers-section", "Controllers", table=_table(before, last)))
    if view.samples:
        sections += _plots(snapshot, view)
    if view.pods:
        sections.append(pods_section(view.pods, snapshot.now))
    return Page("Operator", heading, tuple(sections), refresh=LIVE_REFRESH_SECONDS)


def _problems(view: OperatorView, last: Reading | None) -> Html:
    said = [tag("p", view.why, class_="problem", role="alert")] if view.why else []
    if last is not None and last.silent:
        words = f"The numbers are not those of all Pods: {'; '.join(last.silent)}"
        said.append(tag("p", words, class_="problem", role="alert"))
    if last is not None and last.troubles:
        words = f"Watches that fail now: {', '.join(last.troubles)}"
        said.append(tag("p", words, class_="problem", role="alert"))
    return join(said)


def _facts(view: OperatorView, before: Reading | None, last: Reading) -> Section:
    now = rates(before, last)
    failures = sum(one.failures for one in last.controllers)
    shown = (
        ("Queued", f"{sum(one.queued for one in last.controllers):g}"),
        ("Running", f"{sum(one.running for one in last.controllers):g}"),
        ("Reconciles a second", _rate(now)),
        ("95 % take less than", _time(now)),
        ("Failures since its start", f"{failures:g}"),
        ("Pods", f"{len(view.pods)}" if view.pods else None),
    )
    return Section("facts", "", facts(shown))


def _plots(snapshot: Snapshot, view: OperatorView) -> list[Section]:
    plots = (
        ("queue", "Queue", (Line("queued", 0), Line("wait for a timer", 1))),
        ("rate", "Reconciles a second", (Line("reconciles", 2), Line("failures", 3))),
        ("latency", "Duration of a reconcile (ms, 95 %)", (Line("milliseconds", 4),)),
    )
    return [
        Section(name, title, steps(view.samples, lines, snapshot.now), kind="half")
        for name, title, lines in plots
    ]


def _table(before: Reading | None, last: Reading) -> Table:
    rows = {
        f"controller-{one.name}": _row(one, rates(before, last, one.name))
        for one in last.controllers
    }
    return Table("controllers", COLUMNS, rows, "no controllers")


def _row(one: Controller, now: Rates | None) -> Html:
    numbers = (f"{one.queued:g}", f"{one.delayed:g}", f"{one.running:g}")
    more = (_rate(now), _time(now), f"{one.reconciles:g}")
    failed = badge(f"{one.failures:g}", "bad" if now is not None and now.failures else "calm")
    return tag(
        "tr",
        tag("td", one.name, class_="name"),
        [
            tag("td", text, class_="number", data_label=label)
            for label, text in zip(COLUMNS[1:7], (*numbers, *more), strict=True)
        ],
        tag("td", failed, data_label=COLUMNS[7]),
        id=f"controller-{one.name}",
    )


def _rate(now: Rates | None) -> str:
    return "measuring …" if now is None else f"{now.reconciles:.1f}"


def _time(now: Rates | None) -> str:
    if now is None:
        return "measuring …"
    if now.p95 is None:
        return "nothing ran"
    return f"{now.p95 * 1000:.0f} ms" if now.p95 < 1 else f"{now.p95:.1f} s"
