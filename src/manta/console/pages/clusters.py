"""The page of a RayCluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.names import LABEL_GROUP, LABEL_NODE_TYPE, NODE_HEAD
from manta.console.html import Html, tag
from manta.console.live import Live
from manta.console.pages.demands import demand_sections
from manta.console.pages.hours import hours_of
from manta.console.pages.page import Section, Table
from manta.console.pages.parts import address, facts, pod_state, pods_section, since
from manta.console.plots import Line, steps
from manta.console.snapshot import Item, Snapshot


def cluster_sections(snapshot: Snapshot, one: Item, live: Live) -> Iterator[Section]:
    spec, status = one.object.spec, one.object.status
    head = status.get("head") or {}
    autoscaler = "on" if spec.get("enableInTreeAutoscaling") else "off"
    yield Section("facts", "", facts((
        ("Ray", spec.get("rayVersion")),
        ("Head", head.get("podName")),
        ("Address of the head", head.get("serviceName") or head.get("serviceIP")),
        ("Autoscaler", autoscaler),
        ("Created", since(one.object.metadata.creation_timestamp, snapshot.now)),
        ("Dashboard", _dashboard(one, live)),
        ("Idle", _idle(one)),
        ("Hours of 7 days", hours_of(snapshot, one)),
    )))  # fmt: skip
    lines = (Line("ready workers", 0), Line("desired", 1))
    samples = snapshot.samples.get(one.uid, ())
    yield Section("replicas", "Workers over time", steps(samples, lines, snapshot.now), kind="half")
    yield Section("groups-section", "Groups", table=_groups(snapshot, one), kind="half")
    yield from demand_sections(snapshot, one, live)
    hidden = snapshot.hidden.get("pods", "")
    yield pods_section(snapshot.pods_of(one.key), snapshot.now, hidden=hidden, live=live)


def _dashboard(one: Item, live: Live) -> Html:
    if live.dashboard:
        return tag("a", "open", href=f"{address(one.kind, one.key)}/dashboard", target="_blank")
    return tag("code", f"manta dashboard {one.key.name} -n {one.key.namespace}")


def _idle(one: Item) -> str:
    """What the condition Idle says, of a cluster that is watched for idleness."""
    for condition in one.object.status.get("conditions") or ():
        if condition.get("type") == ClusterConditionType.IDLE:
            return str(condition.get("message") or "")
    return ""


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
