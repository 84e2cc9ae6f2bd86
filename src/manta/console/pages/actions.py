"""What can be done to an object: which buttons are shown, and the page that asks for confirmation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import Resource
from manta.api.usage import UsageError
from manta.console.html import Html, join, tag
from manta.console.pages.page import Page, Section
from manta.console.pages.parts import address
from manta.console.snapshot import Item

RESOURCES: Final[Mapping[str, Resource]] = {
    one.kind: one for one in (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, RAY_CRON_JOBS)
}
_FINISHED: Final = frozenset(("Complete", "Failed"))


@dataclass(frozen=True, slots=True)
class Action:
    word: str
    """In the address."""
    label: str
    verb: str
    """The verb of Kubernetes that it needs."""
    offered: Callable[[Item], bool]
    says: str
    """What will happen, in a sentence."""
    suspends: bool | None = None
    """The new value of `spec.suspend`, if that is all it does."""
    danger: bool = False


def _stage(one: Item) -> str:
    return str(one.object.status.get("jobDeploymentStatus", ""))


def _suspended(one: Item) -> bool:
    return bool(one.object.spec.get("suspend"))


def _may_suspend(one: Item) -> bool:
    return one.kind != "RayService" and not _suspended(one) and _stage(one) not in _FINISHED


ACTIONS: Final = (
    Action(
        "suspend", "Suspend", "patch", _may_suspend,
        "Its Pods are deleted; the object stays and can be resumed. A schedule starts no further jobs.",
        suspends=True,
    ),
    Action(
        "resume", "Resume", "patch", lambda one: one.kind != "RayService" and _suspended(one),
        "Its Pods are created again. A schedule starts jobs again.",
        suspends=False,
    ),
    Action(
        "scale", "Scale", "patch",
        lambda one: one.kind == "RayCluster" and bool(one.object.spec.get("workerGroupSpecs")),
        "The number of workers of one group changes.",
    ),
    Action(
        "stop", "Stop job", "patch",
        lambda one: one.kind == "RayJob" and _stage(one) in ("Running", "Initializing", "Waiting", "Retrying"),
        "The job is stopped and its cluster is deleted. Resume starts it from the beginning.",
        suspends=True,
        danger=True,
    ),
    Action(
        "delete", "Delete", "delete", lambda _one: True,
        "The object and everything that it created are deleted. This cannot be undone.",
        danger=True,
    ),
)  # fmt: skip
BY_WORD: Final = {one.word: one for one in ACTIONS}


def buttons(one: Item, allowed: Callable[[str, Resource, str], bool]) -> Html:
    """Links to the pages of confirmation, for what this user may do."""
    shown = [
        tag(
            "a",
            action.label,
            href=f"{address(one.kind, one.key)}/{action.word}",
            class_=_look(action),
        )
        for action in ACTIONS
        if action.offered(one) and allowed(action.verb, RESOURCES[one.kind], one.key.name)
    ]
    return tag("div", shown, class_="actions") if shown else join([])


def _look(action: Action) -> str:
    return "button danger" if action.danger else "button"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a dry run and the planners say."""

    effect: str = ""
    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def operations(one: Item, action: Action, fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """A JSON patch that changes this very object. Raises UsageError about what the form holds."""
    same: dict[str, Any] = {"op": "test", "path": "/metadata/uid", "value": one.uid}
    if action.suspends is not None:
        return [same, {"op": "add", "path": "/spec/suspend", "value": action.suspends}]
    groups = one.object.spec.get("workerGroupSpecs") or []
    names = [str(group.get("groupName", "")) for group in groups]
    name, text = fields.get("group", ""), fields.get("replicas", "")
    if name not in names:
        raise UsageError(f"Worker group {name!r}: the cluster has {', '.join(names)}")
    if not text.isdecimal() or len(text) > 5:
        raise UsageError(f"Workers {text!r}: write a number from 0 to 99999")
    number = names.index(name)
    low, high = groups[number].get("minReplicas", 0), groups[number].get("maxReplicas", int(text))
    if not low <= int(text) <= high:
        raise UsageError(
            f"Workers {text}: group {name} has between {low} and {high}; change these bounds on the page Plan first"
        )
    path = f"/spec/workerGroupSpecs/{number}"
    return [
        same,
        {"op": "test", "path": f"{path}/groupName", "value": name},
        {"op": "add", "path": f"{path}/replicas", "value": int(text)},
    ]


def confirmation(one: Item, action: Action, forecast: Forecast, fields: Mapping[str, str]) -> Page:
    """Asks, and says what will happen. The form carries the UID: a successor of the same name is safe."""
    back, asks = address(one.kind, one.key), action.word == "scale" and "replicas" not in fields
    kept = [tag("input", type="hidden", name=name, value=value) for name, value in fields.items()]
    body = [
        tag("p", action.says),
        _groups(one) if asks else kept,
        _changed(fields) if action.word == "scale" and not asks else None,
        forecast_html(forecast),
        None if asks else tag("input", type="hidden", name="uid", value=one.uid),
        tag(
            "div",
            _button(action, forecast, asks=asks),
            tag("a", "Cancel", href=back, class_="button"),
            class_="filter",
        ),
    ]
    method = "get" if asks else "post"
    form = tag("form", body, method=method, action=f"{back}/{action.word}", class_="stack")
    title = f"{action.label}: {one.key.name}"
    return Page(
        title, tag("h1", title), (Section("confirm", "", form, kind="message"),),
        crumbs=(("Fleet", "/"), (str(one.key), back)), live=False,
    )  # fmt: skip


def _changed(fields: Mapping[str, str]) -> Html:
    return tag("p", f"Group {fields.get('group', '')}: {fields.get('replicas', '')} workers.")


def _button(action: Action, forecast: Forecast, *, asks: bool) -> Html | None:
    if forecast.problems:
        return None
    if asks:
        return tag("button", "Show what would happen", class_="primary")
    return tag("button", action.label, class_="danger" if action.danger else "primary")


def _groups(one: Item) -> Html:
    groups = one.object.spec.get("workerGroupSpecs") or ()
    options = [
        tag(
            "option",
            f"{group.get('groupName')} (now {group.get('replicas', 0)})",
            value=group.get("groupName"),
        )
        for group in groups
    ]
    count = groups[0].get("replicas", 0) if groups else 0
    return join([
        tag("label", "Worker group", tag("select", options, name="group")),
        tag("label", "Workers", tag("input", type="number", name="replicas", min=0, max=99999, value=count, required=True)),
    ])  # fmt: skip


def forecast_html(forecast: Forecast) -> Html:
    shown = [tag("p", one, class_="problem", role="alert") for one in forecast.problems]
    if forecast.effect:
        shown.append(tag("p", tag("strong", "What the operator would do: "), forecast.effect))
    if forecast.lines:
        shown.append(tag("ul", [tag("li", one) for one in forecast.lines], class_="steps"))
    return join(shown)
