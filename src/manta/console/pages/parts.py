"""What several pages show: states, ages, conditions, Events, Pods. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from manta.api.ages import age
from manta.api.meta import Key
from manta.api.ray.names import LABEL_NODE_TYPE, NODE_HEAD
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.text import bytes_text
from manta.api.times import parse_time
from manta.client.gpus import GpuRow
from manta.client.object_state import State, state_of
from manta.console.capacity import requested
from manta.console.html import EMPTY, Child, Html, tag
from manta.console.live import NOTHING, Live
from manta.console.pages.page import Section, Table
from manta.console.views import Event, Pod

PLURALS: Final[Mapping[str, str]] = {one.kind: one.plural for one in RAY_RESOURCES}
KINDS: Final[Mapping[str, str]] = {one.plural: one.kind for one in RAY_RESOURCES}
SHORT: Final[Mapping[str, str]] = {
    "RayCluster": "Cluster",
    "RayJob": "Job",
    "RayService": "Service",
    "RayCronJob": "Cron job",
}
MAX_EVENTS: Final = 30
MAX_PODS: Final = 200
"""Rows of one table."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_BAD: Final = frozenset(("failed", "invalid"))
_GOOD: Final = frozenset(("ready", "running", "finished", "scheduled", "completed"))
_CALM: Final = frozenset(("suspended", "deleting"))


def address(kind: str, key: Key) -> str:
    return f"/{PLURALS[kind]}/{quote(key.namespace)}/{quote(key.name)}"


def link(kind: str, key: Key, text: str = "") -> Html:
    return tag("a", text or key.name, href=address(kind, key))


def tone(state: State) -> str:
    """`good`, `wait`, `bad` or `calm`: the colour; the word is always there too."""
    if state.word in _BAD:
        return "bad"
    if state.word in _GOOD:
        return "good"
    return "calm" if state.word in _CALM else "wait"


def badge(text: str, look: str) -> Html:
    return tag("span", tag("span", class_="dot", aria_hidden="true"), text, class_=f"badge {look}")


def state_badge(state: State) -> Html:
    return badge(state.word, tone(state))


def ago(text: str | None, now: datetime) -> Html | None:
    """How long ago, with the exact time as a tooltip. None if it is no time."""
    try:
        moment = parse_time(text or "")
    except ValueError:
        return None
    return tag("time", age(moment, now), datetime=text, title=text)


def since(text: str | None, now: datetime) -> Html | None:
    """Like `ago`, in a sentence of its own: `5m ago`."""
    shown = ago(text, now)
    return tag("span", shown, " ago") if shown is not None else None


def plain(text: str) -> str:
    """Without the colours of a terminal, which Ray writes into errors and logs."""
    return _COLOUR.sub("", text)


def cpus(count: float) -> str:
    if 0 < count < 0.1:
        return f"{count:.2f}"
    return f"{count:.1f}".removesuffix(".0")


def memory(count: float) -> str:
    return bytes_text(count)


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    """A list of names and values; empty values are left out."""
    shown = [
        tag("div", tag("dt", name), tag("dd", value))
        for name, value in pairs
        if value not in (None, "")
    ]
    return tag("dl", shown, class_="facts")


# ── conditions ───────────────────────────────────────────────────────────────────────────


def conditions_section(status: Mapping[str, Any], now: datetime) -> Section:
    rows = {
        f"condition-{one.get('type', '')}": _condition(one, now)
        for one in status.get("conditions") or ()
    }
    table = Table(
        "conditions", ("Condition", "Holds", "Since", "In words"), rows, "no conditions yet"
    )
    return Section("conditions-section", "Conditions", table=table)


_TROUBLES: Final = frozenset(("Blocked", "ReplicaFailure", "ReconcileError", "Failed"))


def _condition(one: Mapping[str, Any], now: datetime) -> Html:
    name, held = str(one.get("type", "")), one.get("status") == "True"
    look = condition_tone(one)
    return tag(
        "tr",
        tag("td", name),
        tag(
            "td", badge("yes" if held else str(one.get("status", "")).replace("False", "no"), look)
        ),
        tag("td", ago(one.get("lastTransitionTime"), now)),
        tag("td", sentence(one), class_="words"),
        id=f"condition-{name}",
    )


def condition_tone(one: Mapping[str, Any]) -> str:
    if one.get("status") != "True":
        return "calm"
    return "bad" if one.get("type") in _TROUBLES else "good"


def sentence(one: Mapping[str, Any]) -> str:
    """The message of a condition, or its reason with spaces between the words. A condition that does not hold may
    have its own name as the reason, which would say the opposite."""
    if one.get("message"):
        return str(one["message"])
    reason = str(one.get("reason", ""))
    if reason == one.get("type") and one.get("status") != "True":
        return ""
    return "".join(f" {c.lower()}" if c.isupper() and at else c for at, c in enumerate(reason))


# ── Events ───────────────────────────────────────────────────────────────────────────────


def events_section(
    events: Iterable[Event],
    now: datetime,
    *,
    hidden: str = "",
    title: str = "Events",
    named: Callable[[Event], Child] | None = None,
) -> Section:
    """A table of these Events, newest first. `named`: what the column of the object shows."""
    rows = {
        f"event-{one.metadata.uid}": _event(one, now, (named or involved)(one)) for one in events
    }
    table = Table(
        "events", ("Last seen", "Type", "Reason", "Object", "Message"), rows, hidden or "no Events"
    )
    return Section("events-section", title, table=table)


def newest(events: Iterable[Event], most: int = MAX_EVENTS) -> list[Event]:
    return sorted(events, key=lambda one: one.last_seen, reverse=True)[:most]


def involved(one: Event) -> str:
    return f"{one.involved_object.kind}/{one.involved_object.name}"


def _event(one: Event, now: datetime, name: Child) -> Html:
    times = f" x{one.times}" if one.times > 1 else None
    return tag(
        "tr",
        tag("td", ago(one.last_seen, now), times, class_="nowrap"),
        tag("td", badge(one.type, "wait" if one.type == "Warning" else "calm")),
        tag("td", one.reason),
        tag("td", name, class_="object"),
        tag("td", one.message, class_="words"),
        id=f"event-{one.metadata.uid}",
    )


# ── Pods ─────────────────────────────────────────────────────────────────────────────────


def pod_state(pod: Pod) -> State:
    return state_of("Pod", msgspec.to_builtins(pod))


def pods_section(
    pods: Iterable[Pod], now: datetime, *, hidden: str = "", live: Live = NOTHING
) -> Section:
    found = [(pod_state(pod), pod) for pod in pods]
    found.sort(key=lambda one: (_rank(*one), one[1].metadata.creation_timestamp, one[1].metadata.name))  # fmt: skip
    rows = {f"pod-{pod.metadata.uid}": _pod(pod, state, now, live) for state, pod in found[:MAX_PODS]}  # fmt: skip
    columns = ("Pod", "State", "Waits for", "Node", "GPU", "Restarts", "Age", "Log")
    more = f"the first {MAX_PODS} of {len(found)}; those that are not ready come first"
    said = tag("p", more, class_="note") if len(found) > MAX_PODS else EMPTY
    table = Table("pods", columns, rows, hidden or "no Pods")
    return Section("pods-section", "Pods", said, table)


def _rank(state: State, pod: Pod) -> int:
    """The head, then what is not ready, then the rest."""
    if pod.metadata.labels.get(LABEL_NODE_TYPE) == NODE_HEAD:
        return 0
    return 1 if state.trouble else 2


def _pod(pod: Pod, state: State, now: datetime, live: Live) -> Html:
    meta = pod.metadata
    restarts = sum(one.restart_count for one in pod.status.container_statuses)
    log = f"/pods/{quote(meta.namespace)}/{quote(meta.name)}/log"
    return tag(
        "tr",
        tag("td", meta.name, class_="name"),
        tag("td", state_badge(state)),
        tag("td", state.why, class_="words"),
        tag("td", pod.spec.node_name, class_="node"),
        tag("td", _gpus(pod, live), class_="gpus", data_label="GPUs"),
        tag("td", restarts or "", class_="number", data_label="restarts"),
        tag("td", ago(meta.creation_timestamp, now)),
        tag("td", tag("a", "log", href=log, aria_label=f"log of {meta.name}")),
        id=f"pod-{meta.uid}",
    )


def _gpus(pod: Pod, live: Live) -> Child:
    """What each GPU of a Pod does; where no node says so, how many it asked for."""
    rows = live.gpus_by_pod.get(str(pod.metadata.key), ())
    if rows:
        return [tag("div", gpu_words(one)) for one in rows]
    count = requested((pod,)).gpu
    return cpus(count) if count else ""


def gpu_words(one: GpuRow) -> str:
    """`0 NVIDIA H200: 37 %, 2.1 GiB of 140.4 GiB`."""
    busy = "use unknown" if one.busy is None else f"{one.busy} %"
    used = "memory unknown" if one.used is None else f"{memory(one.used)} of {memory(one.memory)}"
    trouble = f", {one.trouble}" if one.trouble else ""
    return f"{one.index} {one.model}: {busy}, {used}{trouble}"
