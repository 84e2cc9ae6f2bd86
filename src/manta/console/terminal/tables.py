"""What the terminal shows: rows of text with a tone, from a snapshot. Pure.

Other users choose names and messages: `cell` leaves no control character, which a terminal would obey.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from manta.api.ages import age
from manta.api.ray.names import LABEL_CLUSTER
from manta.api.text import one_line
from manta.api.times import parse_time
from manta.client.gpus import GpuRow
from manta.console.capacity import requested
from manta.console.pages.fleet import TONES, desired, summary, tone_of, waits_for, word_of, workers
from manta.console.pages.parts import SHORT, condition_tone, cpus, memory, pod_state, sentence, tone
from manta.console.snapshot import Item, Snapshot
from manta.console.views import Event, Pod

MAX_EVENTS: Final = 100
_BAR: Final = 16
_GPU_BAR: Final = 8
_WIDEST: Final = 300
FLEET: Final = (
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("State", "state"),
    ("Workers", "workers"),
    ("CPU", "cpu"),
    ("Memory", ""),
    ("GPU", ""),
    ("Age", "age"),
    ("Waits for", ""),
)
"""The columns, each with the order that sorts by it."""
CONDITIONS: Final = ("Condition", "", "Since", "In words")
PODS: Final = ("Pod", "State", "Node", "GPU", "Restarts", "Age", "Waits for")
EVENTS: Final = ("Last seen", "Type", "Reason", "Object", "Message")
GPUS: Final = ("Node", "GPU", "Use", "Memory", "Pod", "Cluster", "Trouble")


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: str = ""
    """`good`, `wait`, `bad`, `calm`, or none."""


Row = tuple[Cell, ...]


def cell(text: object, look: str = "") -> Cell:
    return Cell(one_line(str(text), _WIDEST), look)


def fleet_row(one: Item, now: datetime) -> Row:
    used, look = desired(one), tone_of(one)
    return (
        cell(SHORT[one.kind]),
        cell(one.key.namespace),
        cell(one.key.name),
        cell(word_of(one), look),
        cell(workers(one)),
        cell(cpus(used.cpu) if used.cpu else ""),
        cell(memory(used.memory) if used.memory else ""),
        cell(cpus(used.gpu) if used.gpu else ""),
        cell(ago(one.object.metadata.creation_timestamp, now)),
        cell(waits_for(one, now), look if look in ("bad", "wait") else ""),
    )


def ago(text: str | None, now: datetime) -> str:
    try:
        return age(parse_time(text or ""), now)
    except ValueError:
        return ""


def headline(snapshot: Snapshot) -> tuple[Cell, ...]:
    """How many objects there are, and how many of each tone."""
    tones = Counter(tone_of(one) for one in snapshot.items)
    counted = [cell(f"{tones[look]} {words}", look) for look, words in TONES.items() if tones[look]]
    return (cell(summary(snapshot)), *counted)


def capacity(snapshot: Snapshot) -> tuple[str, ...]:
    """A bar each for CPU, memory and GPUs: what Ray's Pods request of what the nodes offer."""
    used, there = snapshot.requested, snapshot.offered
    found = [("CPU", used.cpu, there.cpu, cpus), ("Memory", used.memory, there.memory, memory)]
    if used.gpu or there.gpu:
        found.append(("GPU", used.gpu, there.gpu, cpus))
    if snapshot.hidden.get("nodes"):
        return tuple(f"{name} {words(amount)} requested" for name, amount, _, words in found)
    return tuple(
        f"{name} {bar(amount, most)} {words(amount)} of {words(most)}"
        for name, amount, most, words in found
    )


def bar(used: float, most: float, width: int = _BAR) -> str:
    share = min(max(used / most, 0.0), 1.0) if most else 0.0
    full = round(width * share)
    return "█" * full + "░" * (width - full)


def notes(snapshot: Snapshot) -> tuple[str, ...]:
    """What this user cannot see, or sees late."""
    return tuple(one_line(why, _WIDEST) for why in snapshot.hidden.values())


# ── one object ───────────────────────────────────────────────────────────────────────────


def clusters_of(snapshot: Snapshot, one: Item) -> tuple[Item, ...]:
    """The RayClusters behind an object; those of a cron job are behind its jobs."""
    if one.kind == "RayCluster":
        return (one,)
    owners = snapshot.owned(one, "RayJob") if one.kind == "RayCronJob" else (one,)
    return tuple(found for owner in owners for found in snapshot.owned(owner, "RayCluster"))


def condition_rows(one: Item, now: datetime) -> tuple[Row, ...]:
    return tuple(
        (
            cell(found.get("type", "")),
            cell(found.get("status", ""), condition_tone(found)),
            cell(ago(found.get("lastTransitionTime"), now)),
            cell(sentence(found)),
        )
        for found in one.object.status.get("conditions") or ()
    )


def pod_rows(snapshot: Snapshot, one: Item, gpus: Sequence[GpuRow] = ()) -> tuple[Row, ...]:
    pods = [pod for found in clusters_of(snapshot, one) for pod in snapshot.pods_of(found.key)]
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))
    return tuple(_pod_row(pod, snapshot.now, gpus) for pod in pods)


def _pod_row(pod: Pod, now: datetime, gpus: Sequence[GpuRow]) -> Row:
    state = pod_state(pod)
    count = requested((pod,)).gpu
    held = [gpu_use(one) for one in gpus if one.pod == str(pod.metadata.key)]
    restarts = sum(one.restart_count for one in pod.status.container_statuses)
    return (
        cell(pod.metadata.name),
        cell(state.word, tone(state)),
        cell(pod.spec.node_name),
        cell(", ".join(held) or (cpus(count) if count else "")),
        cell(restarts or ""),
        cell(ago(pod.metadata.creation_timestamp, now)),
        cell(state.why, "bad" if tone(state) == "bad" else ""),
    )


def event_rows(snapshot: Snapshot, one: Item) -> tuple[Row, ...]:
    found: list[Event] = list(snapshot.events_of(one.kind, one.key))
    for cluster in clusters_of(snapshot, one):
        if cluster is not one:
            found += snapshot.events_of(cluster.kind, cluster.key)
        for pod in snapshot.pods_of(cluster.key):
            found += snapshot.events_of("Pod", pod.metadata.key)
    found.sort(key=lambda event: event.last_seen, reverse=True)
    return tuple(_event_row(event, snapshot.now) for event in found[:MAX_EVENTS])


def _event_row(event: Event, now: datetime) -> Row:
    about = event.involved_object
    times = f" x{event.times}" if event.times > 1 else ""
    return (
        cell(f"{ago(event.last_seen, now)}{times}"),
        cell(event.type, "wait" if event.type == "Warning" else "calm"),
        cell(event.reason),
        cell(f"{about.kind}/{about.name}"),
        cell(event.message),
    )


# ── GPUs ─────────────────────────────────────────────────────────────────────────────────


def gpu_use(one: GpuRow) -> str:
    busy = "?" if one.busy is None else f"{one.busy} %"
    return f"{one.index}: {busy}"


def gpu_rows(snapshot: Snapshot, gpus: Iterable[GpuRow]) -> tuple[Row, ...]:
    """Every GPU that a node tells about, with the Pod and the Ray cluster that hold it."""
    clusters = {
        str(pod.metadata.key): pod.metadata.labels.get(LABEL_CLUSTER, "") for pod in snapshot.pods
    }
    return tuple(
        (
            cell(one.node),
            cell(f"{one.index} {one.model}"),
            cell("unknown" if one.busy is None else f"{bar(one.busy, 100, _GPU_BAR)} {one.busy} %"),
            cell(
                "unknown"
                if one.used is None
                else f"{bar(one.used, one.memory, _GPU_BAR)} {memory(one.used)} of {memory(one.memory)}"
            ),
            cell(one.pod or "nobody", "" if one.pod else "calm"),
            cell(clusters.get(one.pod, "")),
            cell(_trouble(one), "bad"),
        )
        for one in gpus
    )


def _trouble(one: GpuRow) -> str:
    leaks = [f"process {found['pid']} holds memory without a Pod" for found in one.leaks]
    return "; ".join([*([one.trouble] if one.trouble else []), *leaks])


def requested_gpus(snapshot: Snapshot) -> tuple[Row, ...]:
    """Where no node tells about its GPUs: which Pods have asked for some."""
    rows = []
    for pod in snapshot.pods:
        count = requested((pod,)).gpu
        if count and LABEL_CLUSTER in pod.metadata.labels:
            cluster = pod.metadata.labels[LABEL_CLUSTER]
            name, where = cell(pod.metadata.key), cell(pod.spec.node_name)
            rows.append(
                (
                    where,
                    cell(f"{cpus(count)} requested"),
                    *_unknown(),
                    name,
                    cell(cluster),
                    cell(""),
                )
            )
    return tuple(rows)


def _unknown() -> tuple[Cell, Cell]:
    return cell("unknown", "calm"), cell("unknown", "calm")
