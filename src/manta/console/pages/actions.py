"""What can be done to an object: which buttons are shown, and the page that asks for confirmation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import SERVICES, Resource
from manta.console.changes import dashboard_service
from manta.console.html import Html, join, tag
from manta.console.pages.forecast import Forecast, forecast_html
from manta.console.pages.page import Page, Section
from manta.console.pages.parts import address
from manta.console.snapshot import Item

RESOURCES: Final[Mapping[str, Resource]] = {
    one.kind: one for one in (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, RAY_CRON_JOBS)
}
Allowed = Callable[..., bool]
"""Verb, resource, name and subresource: as `Rights.allows`."""
_FINISHED: Final = frozenset(("Complete", "Failed"))


@dataclass(frozen=True, slots=True)
class Action:
    word: str
    """In the address."""
    label: str
    verb: str
    """The verb of Kubernetes that it needs."""
    offered: Callable[[Item], bool]
    says: str | Mapping[str, str]
    """What will happen, in a sentence; by kind, if it differs."""
    asks: tuple[str, ...] = ()
    """Fields that the person fills in first; the page of confirmation keeps them."""
    danger: bool = False

    def asks_for(self, fields: Mapping[str, str]) -> bool:
        return any(name not in fields for name in self.asks)


def _stage(one: Item) -> str:
    return str(one.object.status.get("jobDeploymentStatus", ""))


def _suspended(one: Item) -> bool:
    return bool(one.object.spec.get("suspend"))


def _may_suspend(one: Item) -> bool:
    """A RayJob only if its cluster goes with it: suspending deletes the cluster."""
    spec = one.object.spec
    keeps = one.kind == "RayJob" and (
        not spec.get("shutdownAfterJobFinishes") or bool(spec.get("clusterSelector"))
    )
    return not keeps and not _suspended(one) and _stage(one) not in _FINISHED


def _both_sides(one: Item) -> bool:
    status = one.object.status
    sides = ("activeServiceStatus", "pendingServiceStatus")
    return all((status.get(side) or {}).get("rayClusterName") for side in sides)


ACTIONS: Final = (
    Action(
        "suspend", "Suspend", "patch", _may_suspend,
        {
            "RayCluster": "Its Pods are deleted; the object stays and can be resumed.",
            "RayJob": "Its cluster is deleted. The job starts again when it is resumed.",
            "RayService": "Its clusters are deleted, and nothing is served until it is resumed.",
            "RayCronJob": "The schedule starts no further jobs until it is resumed; jobs that run go on.",
        },
    ),
    Action(
        "resume", "Resume", "patch", _suspended,
        {
            "RayCluster": "Its Pods are created again.",
            "RayJob": "Its cluster is created again, and the job starts again.",
            "RayService": "A cluster is created, which serves when it is ready.",
            "RayCronJob": "The schedule starts jobs again.",
        },
    ),
    Action(
        "scale", "Scale", "patch",
        lambda one: one.kind == "RayCluster" and bool(one.object.spec.get("workerGroupSpecs")),
        "The number of workers of one group changes.",
        asks=("group", "replicas"),
    ),
    Action(
        "upgrade", "Upgrade", "patch", lambda one: one.kind == "RayService",
        "A new cluster with this image is made; the traffic moves to it when it is ready.",
        asks=("image", "version"),
    ),
    Action(
        "rollback", "Roll back", "patch",
        lambda one: one.kind == "RayService" and _both_sides(one),
        "The spec goes back to that of the active cluster; the pending cluster is given up.",
        danger=True,
    ),
    Action(
        "retry", "Retry", "create",
        lambda one: one.kind == "RayJob" and _stage(one) in _FINISHED,
        "A new job with the same spec runs; this one stays with its result.",
    ),
    Action(
        "stop", "Stop job", "create",
        lambda one: one.kind == "RayJob" and one.object.status.get("jobStatus") in ("PENDING", "RUNNING"),
        "Ray is asked to stop the job. It does not run again; Retry starts a new one.",
        danger=True,
    ),
    Action(
        "delete", "Delete", "delete", lambda _one: True,
        "The object and everything that it created are deleted. This cannot be undone.",
        danger=True,
    ),
)  # fmt: skip
BY_WORD: Final = {one.word: one for one in ACTIONS}


def buttons(one: Item, allowed: Allowed) -> Html:
    """Links to the pages of confirmation, for what this user may do."""
    shown = [
        tag(
            "a",
            action.label,
            href=f"{address(one.kind, one.key)}/{action.word}",
            class_=_look(action),
        )
        for action in ACTIONS
        if action.offered(one) and permitted(action, one, allowed)
    ]
    if allowed("patch", RESOURCES[one.kind], one.key.name):
        here = address(one.kind, one.key)
        shown.insert(0, tag("a", "Edit", href=f"/plan?object={here}", class_="button"))
    return tag("div", shown, class_="actions") if shown else join([])


def permitted(action: Action, one: Item, allowed: Allowed) -> bool:
    """A new object has another name: a right to this name alone is none."""
    if action.word == "stop":  # by Ray's dashboard, behind the proxy of the API server
        return allowed("create", SERVICES, f"{dashboard_service(one)}:dashboard", "proxy")
    name = "" if action.verb == "create" else one.key.name
    return allowed(action.verb, RESOURCES[one.kind], name)


def _look(action: Action) -> str:
    return "button danger" if action.danger else "button"


def confirmation(one: Item, action: Action, forecast: Forecast, fields: Mapping[str, str]) -> Page:
    """Asks, and says what will happen. The form carries the UID: a successor of the same name is safe; and the digest
    of the change: nothing else is carried out."""
    back = address(one.kind, one.key)
    asks = action.asks_for(fields) or bool(action.asks and forecast.problems)
    kept = [_hidden(name, value) for name, value in fields.items()]
    shown = {"uid": one.uid, "change": forecast.digest}
    body = [
        tag("p", action.says if isinstance(action.says, str) else action.says[one.kind]),
        _FORMS[action.word](one, fields) if asks else kept,
        None if asks else _said(action, fields),
        forecast_html(forecast),
        None if asks else [_hidden(name, value) for name, value in shown.items() if value],
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


def _hidden(name: str, value: str) -> Html:
    return tag("input", type="hidden", name=name, value=value)


def _said(action: Action, fields: Mapping[str, str]) -> Html | None:
    """What the person has filled in, as a sentence."""
    words = {
        "scale": f"Group {fields.get('group', '')}: {_counted(fields.get('replicas', ''))}.",
        "upgrade": f"Image: {fields.get('image', '')}",
        "retry": f"The new job is called {fields.get('name', '')}.",
    }
    return tag("p", words[action.word]) if action.word in words else None


def _counted(replicas: str) -> str:
    return f"{replicas} worker{'' if replicas == '1' else 's'}"


def _button(action: Action, forecast: Forecast, *, asks: bool) -> Html | None:
    if asks:
        return tag("button", "Show what would happen", class_="primary")
    if forecast.problems:
        return None
    return tag("button", action.label, class_="danger" if action.danger else "primary")


def _scale_form(one: Item, given: Mapping[str, str]) -> Html:
    """`given`: what the person has written, which may be wrong."""
    groups = one.object.spec.get("workerGroupSpecs") or ()
    options = [
        tag(
            "option",
            f"{group.get('groupName')} (now {group.get('replicas', 0)})",
            value=group.get("groupName"),
            selected=group.get("groupName") == given.get("group"),
        )
        for group in groups
    ]
    count = given.get("replicas") or (groups[0].get("replicas", 0) if groups else 0)
    return join([
        tag("label", "Worker group", tag("select", options, name="group")),
        tag("label", "Workers", tag("input", type="number", name="replicas", min=0, max=99999, value=count, required=True)),
    ])  # fmt: skip


def _upgrade_form(one: Item, given: Mapping[str, str]) -> Html:
    config = one.object.spec.get("rayClusterConfig") or {}
    image = given.get("image", _head_image(config))
    version = given.get("version", config.get("rayVersion", ""))
    return join([
        tag(
            "label", "Image of every Ray container",
            tag("input", type="text", name="image", value=image, required=True),
        ),
        tag("label", "Ray version", tag("input", type="text", name="version", value=version)),
    ])  # fmt: skip


def _head_image(config: Mapping[str, Any]) -> str:
    pod = ((config.get("headGroupSpec") or {}).get("template") or {}).get("spec") or {}
    return str((pod.get("containers") or [{}])[0].get("image", ""))


_FORMS: Final[Mapping[str, Callable[[Item, Mapping[str, str]], Html]]] = {
    "scale": _scale_form,
    "upgrade": _upgrade_form,
}
