"""The fleet: every Ray object that the user may see, and what each waits for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from manta.api.ray.names import ANNOTATION_IDLE_SINCE
from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.client.gpus import GpuRow, leak_words
from manta.console.capacity import Amount, amount
from manta.console.html import Html, join, tag
from manta.console.pages.crons import next_run_words
from manta.console.pages.hours import hours_sections
from manta.console.pages.page import LIVE_REFRESH_SECONDS, REFRESH_SECONDS, Page, Section, Table
from manta.console.pages.parts import (
    SHORT,
    ago,
    badge,
    cpus,
    gpu_words,
    link,
    memory,
    plain,
    tone,
)
from manta.console.snapshot import STALE, Item, Snapshot

ROWS: Final = 200
"""On one page."""
TONES: Final[Mapping[str, str]] = {
    "good": "ready, running or done",
    "wait": "waiting",
    "bad": "failed",
    "calm": "idle or suspended",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """The query of the address."""

    text: str = ""
    kind: str = ""
    namespace: str = ""
    tone: str = ""
    sort: str = "namespace"
    down: bool = False
    first: int = 0

    def query(self) -> str:
        """The query that asks for this; what is the default is left out."""
        wanted = {
            "q": self.text,
            "kind": self.kind,
            "namespace": self.namespace,
            "state": self.tone,
            "sort": "" if self.sort == "namespace" and not self.down else self.sort,
            "down": "1" if self.down else "",
            "first": str(self.first) if self.first else "",
        }
        return urlencode([pair for pair in wanted.items() if pair[1]])

    def address(self) -> str:
        return f"/?{self.query()}" if self.query() else "/"


def filter_of(query: Sequence[tuple[str, str]]) -> Filter:
    """Unknown values are ignored: an address that somebody edited still shows a page."""
    given = dict(query)
    first = given.get("first", "")
    return Filter(
        text=given.get("q", "").strip()[:200],
        kind=given.get("kind", "") if given.get("kind", "") in SHORT else "",
        namespace=given.get("namespace", ""),
        tone=given.get("state", "") if given.get("state", "") in TONES else "",
        sort=given["sort"] if given.get("sort") in _ORDERS else "namespace",
        down=given.get("down") == "1",
        first=int(first) if first.isdecimal() and len(first) < 7 else 0,
    )


def fleet(snapshot: Snapshot, chosen: Filter, gpus: Sequence[GpuRow] = ()) -> Page:
    found = items(snapshot, chosen)
    first = chosen.first if chosen.first < len(found) else 0
    shown = found[first : first + ROWS]
    table = Table(
        "fleet",
        tuple(_column(name, order, chosen) for name, order in _COLUMNS),
        {f"object-{one.uid}": _row(one, snapshot) for one in shown},
        nothing(snapshot),
    )
    heading = join([tag("h1", "Fleet"), tag("p", summary(snapshot), class_="lead")])
    return Page(
        "Fleet",
        heading,
        (
            Section("notes", "", _notes(snapshot), kind="plain"),
            Section("overview", "", _overview(snapshot, chosen, gpus), kind="overview"),
            *([Section("gpu-list", "GPUs", table=_gpus(gpus))] if gpus else ()),
            Section("filter", "", _form(snapshot, chosen), kind="plain"),
            Section("paging", "", _paging(chosen, first, len(found)), table),
            *hours_sections(snapshot),
        ),
        refresh=LIVE_REFRESH_SECONDS if gpus else REFRESH_SECONDS,
    )


def items(snapshot: Snapshot, chosen: Filter) -> list[Item]:
    """The objects that match, in the chosen order."""
    found = [one for one in snapshot.items if matches(one, chosen)]
    found.sort(key=_ORDERS["namespace"])
    found.sort(key=_ORDERS[chosen.sort], reverse=chosen.down)
    return found


def is_idle(one: Item) -> bool:
    """A ready cluster that the operator found idle, or whose autoscaler has removed all workers."""
    return (
        one.kind == "RayCluster"
        and one.state.word == "ready"
        and (
            ANNOTATION_IDLE_SINCE in one.object.metadata.annotations
            or (
                bool(one.object.spec.get("enableInTreeAutoscaling"))
                and not one.object.status.get("desiredWorkerReplicas")
            )
        )
    )


def tone_of(one: Item) -> str:
    """Which of the tiles counts it."""
    look: str | None = one.memo.get("look")
    if look is None:
        look = one.memo["look"] = "calm" if is_idle(one) else tone(one.state)
    return look


def word_of(one: Item) -> str:
    return "idle" if is_idle(one) else one.state.word


def item_badge(one: Item) -> Html:
    """Its state, in the colour of the tile that counts it."""
    return badge(word_of(one), tone_of(one))


def matches(one: Item, chosen: Filter) -> bool:
    return (
        chosen.kind in ("", one.kind)
        and chosen.namespace in ("", one.key.namespace)
        and chosen.tone in ("", tone_of(one))
        and (not chosen.text or _has_words(one, chosen.text))
    )


def _has_words(one: Item, text: str) -> bool:
    words = f"{one.kind} {one.key} {word_of(one)} {one.state.why}".lower()
    return all(word in words for word in text.lower().split())


# ── overview ─────────────────────────────────────────────────────────────────────────────


def summary(snapshot: Snapshot) -> str:
    kinds = Counter(one.kind for one in snapshot.items)
    words = [
        f"{kinds[kind]} {name.lower()}{'' if kinds[kind] == 1 else 's'}"
        for kind, name in SHORT.items()
        if kinds[kind]
    ]
    spaces = len({one.key.namespace for one in snapshot.items})
    if not words:
        return "No Ray objects yet."
    return f"{', '.join(words)} in {spaces} namespace{'' if spaces == 1 else 's'}"


def _notes(snapshot: Snapshot) -> Html:
    """Which kinds are not among the rows, although others are, and why. The frame says if a watch fails."""
    if not snapshot.items:
        return join([])  # the empty table says it
    hidden = [
        why
        for plural, why in snapshot.hidden.items()
        if plural.startswith("ray") and STALE not in why
    ]
    return tag("p", "; ".join(dict.fromkeys(hidden)), class_="notice wait") if hidden else join([])


def _overview(snapshot: Snapshot, chosen: Filter, gpus: Sequence[GpuRow]) -> Html:
    tones = Counter(tone_of(one) for one in snapshot.items)
    tiles = [
        tag(
            "a",
            tag("strong", tones[look]),
            tag("span", words),
            href=replace(chosen, tone="" if chosen.tone == look else look, first=0).address(),
            class_=f"tile {look}",
            aria_current="true" if chosen.tone == look else None,
        )
        for look, words in TONES.items()
    ]
    return join([tag("div", tiles, class_="tiles"), _capacity(snapshot, gpus)])


def _capacity(snapshot: Snapshot, gpus: Sequence[GpuRow]) -> Html:
    used = snapshot.requested
    if why := snapshot.hidden.get("pods"):
        return tag("p", f"What Ray requests of the nodes is not known: {why}", class_="note")
    if why := snapshot.hidden.get("nodes"):
        words = f"Ray's Pods request {cpus(used.cpu)} CPUs, {memory(used.memory)} and {cpus(used.gpu)} GPUs ({why})"
        return tag("p", words, class_="note")
    there = snapshot.offered
    count = sum(not one.spec.unschedulable for one in snapshot.nodes)
    cordoned = len(snapshot.nodes) - count
    more = (
        f"; without {cordoned} that {'is' if cordoned == 1 else 'are'} cordoned" if cordoned else ""
    )
    meters = [
        _meter("CPU", used.cpu, there.cpu, cpus),
        _meter("Memory", used.memory, there.memory, memory),
        _meter("GPU", used.gpu, there.gpu, cpus) if there.gpu or used.gpu else None,
        _gpu_memory(gpus),
    ]
    return tag(
        "div",
        meters,
        tag(
            "p", f"requested by Ray on {count} node{'' if count == 1 else 's'}{more}", class_="note"
        ),
        class_="meters",
    )


def _gpu_memory(gpus: Sequence[GpuRow]) -> Html | None:
    """What the GPUs hold now, where the nodes say so."""
    known = [(one.used, one.memory) for one in gpus if one.used is not None and one.memory]
    if not known:
        return None
    used, there = (sum(amounts) for amounts in zip(*known, strict=True))
    return _meter("GPU memory", used, there, memory)


def _gpus(gpus: Sequence[GpuRow]) -> Table:
    """Each GPU, the Pod that holds it, and processes that hold its memory without a living Pod."""
    rows = {f"gpu-{one.node}-{one.index}": _gpu(one) for one in gpus}
    return Table("gpus", ("Node", "GPU", "Pod", "Processes without a Pod"), rows)


def _gpu(one: GpuRow) -> Html:
    leaks = [leak_words(leak, _held(leak["memory"])) for leak in one.leaks]
    cells = (("GPU", gpu_words(one)), ("Pod", one.pod), ("without a Pod", "; ".join(leaks)))
    return tag(
        "tr",
        tag("td", one.node, class_="name"),
        [tag("td", words, class_="words", data_label=label) for label, words in cells],
        id=f"gpu-{one.node}-{one.index}",
    )


def _held(amount: int | None) -> str:
    return "memory" if amount is None else memory(amount)


def _meter(name: str, used: float, there: float, words: Callable[[float], str]) -> Html:
    percent = round(100 * used / there) if there else 0
    label = f"{words(used)} of {words(there)}"
    bar = tag(
        "meter", label, min=0, max=100, value=min(percent, 100), aria_label=f"{name}: {label}"
    )
    return tag("div", tag("span", name), bar, tag("span", label, class_="number"), class_="meter")


# ── filter ───────────────────────────────────────────────────────────────────────────────


def _form(snapshot: Snapshot, chosen: Filter) -> Html:
    spaces = sorted({one.key.namespace for one in snapshot.items} | {chosen.namespace} - {""})
    text = tag(
        "input",
        type="search",
        name="q",
        value=chosen.text,
        placeholder="name, state or reason",
        aria_label="Search",
    )
    hidden = [
        tag("input", type="hidden", name=name, value=value)
        for name, value in (("sort", chosen.sort), ("down", "1" if chosen.down else ""))
        if value not in ("", "namespace")
    ]
    return tag(
        "form",
        text,
        _select("kind", "All kinds", SHORT, chosen.kind),
        _select("namespace", "All namespaces", {one: one for one in spaces}, chosen.namespace),
        _select("state", "Any state", TONES, chosen.tone),
        hidden,
        tag("button", "Show"),
        tag("a", "Clear", href="/", class_="quiet") if chosen.query() else None,
        class_="filter",
        role="search",
    )


def _select(name: str, everything: str, options: Mapping[str, str], chosen: str) -> Html:
    shown = [
        tag("option", words, value=value, selected=value == chosen)
        for value, words in {"": everything, **options}.items()
    ]
    return tag("select", shown, name=name, aria_label=name)


def _paging(chosen: Filter, first: int, found: int) -> Html:
    if found <= ROWS:
        return join([])
    last = min(first + ROWS, found)
    before = replace(chosen, first=max(first - ROWS, 0)).address() if first else None
    after = replace(chosen, first=last).address() if last < found else None
    return tag(
        "p",
        f"{first + 1} to {last} of {found}",
        tag("a", "← previous", href=before) if before else None,
        tag("a", "next →", href=after) if after else None,
        class_="paging",
    )


# ── rows ─────────────────────────────────────────────────────────────────────────────────

_COLUMNS: Final = (
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("State", "state"),
    ("Waits for", ""),
    ("Workers", "workers"),
    ("CPU", "cpu"),
    ("Memory", ""),
    ("GPU", ""),
    ("Age", "age"),
)
_WORST_FIRST: Final = {"bad": 0, "wait": 1, "calm": 2, "good": 3}
_ORDERS: Final[Mapping[str, Callable[[Item], Any]]] = {
    "namespace": lambda one: (one.key.namespace, one.kind, one.key.name),
    "kind": lambda one: one.kind,
    "name": lambda one: one.key.name,
    "state": lambda one: (_WORST_FIRST[tone_of(one)], word_of(one)),
    "workers": lambda one: one.object.status.get("readyWorkerReplicas") or 0,
    "cpu": lambda one: desired(one).cpu,
    "age": lambda one: one.object.metadata.creation_timestamp,
}


def _column(name: str, order: str, chosen: Filter) -> Html | str:
    if not order:
        return name
    sorted_by = chosen.sort == order
    to = replace(chosen, sort=order, down=sorted_by and not chosen.down, first=0)
    arrow = (" ↓" if chosen.down else " ↑") if sorted_by else ""
    return tag("a", name, tag("span", arrow, aria_hidden="true"), href=to.address())


def _row(one: Item, snapshot: Snapshot) -> Html:
    """The same markup for every tab, until the object changes or looks older."""
    age = _age(one, snapshot.now)
    looks = (age, waits_for(one, snapshot.now)) if one.kind == "RayCronJob" else age
    known = one.memo.get("row")
    if known is None or known[0] != looks:
        known = one.memo["row"] = (looks, _new_row(one, age, snapshot.now))
    row: Html = known[1]
    return row


def _new_row(one: Item, age: Html | None, now: datetime) -> Html:
    used = desired(one)
    return tag(
        "tr",
        tag("td", SHORT[one.kind], _owner(one), class_="kind"),
        tag("td", one.key.namespace),
        tag("td", link(one.kind, one.key), class_="name"),
        tag("td", item_badge(one)),
        tag("td", waits_for(one, now), class_="words"),
        tag("td", workers(one), class_="number", data_label="workers"),
        tag("td", cpus(used.cpu) if used.cpu else "", class_="number"),
        tag("td", memory(used.memory) if used.memory else "", class_="number"),
        tag("td", cpus(used.gpu) if used.gpu else "", class_="number"),
        tag("td", age, class_="number", data_label="age"),
        id=f"object-{one.uid}",
    )


def _owner(one: Item) -> Html | None:
    owner = one.object.metadata.controller
    return tag("small", f"of {owner.name}") if owner is not None else None


def _age(one: Item, now: datetime) -> Html | None:
    return ago(one.object.metadata.creation_timestamp, now)


def waits_for(one: Item, now: datetime) -> str:
    """What it waits for, in a sentence; also the upgrade of a ready RayService, and the next run of a schedule."""
    if one.kind == "RayCronJob" and not one.state.trouble:
        return next_run_words(one, now)
    for condition in one.object.status.get("conditions") or ():
        if condition.get("type") == "UpgradeInProgress" and condition.get("status") == "True":
            return f"upgrade: {condition.get('message', '')}"
    if is_idle(one):
        since = one.object.metadata.annotations.get(ANNOTATION_IDLE_SINCE)
        return f"idle since {since}" if since else "its autoscaler runs no workers"
    return plain(one.state.why)


def cluster_status(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the RayCluster behind an object."""
    active = status.get("activeServiceStatus") or status.get("pendingServiceStatus") or status
    return active.get("rayClusterStatus") or active


def workers(one: Item) -> str:
    """Ready and desired; nothing of a cluster that is suspended, although its status still desires them."""
    if one.state.word == "suspended":
        return ""
    inner = cluster_status(one.object.status)
    ready, wanted = inner.get("readyWorkerReplicas", 0), inner.get("desiredWorkerReplicas", 0)
    return f"{ready}/{wanted}" if ready or wanted else ""


def desired(one: Item) -> Amount:
    if one.state.word == "suspended":
        return Amount()
    inner = cluster_status(one.object.status)
    found = amount(
        {"cpu": inner.get("desiredCPU", 0) or 0, "memory": inner.get("desiredMemory", 0) or 0}
    )
    gpu = amount({RESOURCE_NVIDIA_GPU: inner.get("desiredGPU", 0) or 0}).gpu
    return replace(found, gpu=gpu)


def nothing(snapshot: Snapshot) -> str:
    if snapshot.items:
        return "no object matches this filter"
    hidden = [why for plural, why in snapshot.hidden.items() if plural.startswith("ray")]
    if hidden:
        return hidden[0]
    return "no Ray objects yet: apply one on the page Plan, or with `manta apply -f FILE`"
