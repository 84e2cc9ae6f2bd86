"""In which order a rolling update would replace Pods, for `manta plan`.

The planners of a reconcile run again and again, on Pods that become ready and go away at once. What would
happen differs from it only where Pods of one step become ready at different times. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import msgspec

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.api.resources import CONTROLLER_REVISIONS, PODS
from manta.api.revisions import ControllerRevision
from manta.api.times import format_time
from manta.controllers.raycluster.plan import plan
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import next_status
from manta.reconcile.actions import Action, Create, Delete, Patch
from manta.reconcile.outcome import UNTRIED

MAX_STEPS: Final = 200
"""Steps that are predicted, however many Pods there are."""
_QUIET: Final = 3
"""Rounds without an action after which nothing more will happen."""
_MAX_ROUNDS: Final = 5 * MAX_STEPS
_ROUND: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Step:
    verb: str
    """`create` or `delete`."""
    group: str
    name: str = ""
    """The name of an existing Pod; new Pods have no name yet."""

    def __str__(self) -> str:
        is_head = self.group == names.HEAD_GROUP
        if self.verb == "create":
            return "create the head" if is_head else f"create a worker of group {self.group}"
        return f"delete {'head' if is_head else 'worker'} {self.name or 'that was just created'}"


@dataclass(frozen=True, slots=True)
class Forecast:
    steps: tuple[Step, ...] = ()
    more: int = 0
    """Outdated Pods that are left after the last predicted step."""
    ends: str = ""
    """What it waits for in the end; empty if it completes."""


def forecast(snapshot: ClusterSnapshot) -> Forecast:
    """Empty without a rolling update, or when it has nothing to replace."""
    if snapshot.rollout is None or snapshot.violations:
        return Forecast()
    model = _Model(snapshot, {pod.metadata.name: pod for pod in snapshot.pods})
    quiet = 0
    for _ in range(_MAX_ROUNDS):
        quiet = 0 if model.advance() else quiet + 1
        if quiet >= _QUIET or len(model.steps) >= MAX_STEPS:
            break
    return Forecast(tuple(model.steps), model.left, model.waits_for)


@dataclass
class _Model:
    snapshot: ClusterSnapshot
    pods: dict[str, Pod]
    known: frozenset[str] = frozenset()
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = frozenset(self.pods)

    @property
    def left(self) -> int:
        rollout = self.snapshot.rollout
        return len(rollout.outdated) if rollout is not None else 0

    @property
    def waits_for(self) -> str:
        found = find(self.snapshot.cluster.status.conditions, ClusterConditionType.ROLLING_UPDATE)
        is_done = found is None or found.status != "True" or len(self.steps) >= MAX_STEPS
        return "" if is_done or found is None else found.message

    def advance(self) -> bool:
        """One reconcile, and what kubelets do after it. Returns whether anything was done."""
        before = self.snapshot
        actions = plan(before).plan.actions
        revisions = {one.metadata.name: one for one in before.revisions}
        for action in actions:
            self._apply(action, revisions)
        status = next_status(before, UNTRIED)
        cluster = msgspec.structs.replace(before.cluster, status=status)
        self.snapshot = replace(
            before,
            cluster=cluster,
            pods=tuple(self.pods.values()),
            revisions=tuple(revisions.values()),
            now=before.now + _ROUND,
            seed=before.seed + 1,
        )
        return any(_matters(action) for action in actions)

    def _apply(self, action: Action, revisions: dict[str, ControllerRevision]) -> None:
        match action:
            case Create() if action.resource == PODS:
                pod = _ready(dict(action.manifest), self.snapshot)
                self.pods[pod.metadata.name] = pod
                self.steps.append(Step("create", _group(pod)))
            case Delete() if action.resource == PODS:
                pod = self.pods.pop(action.key.name)
                name = pod.metadata.name if pod.metadata.name in self.known else ""
                self.steps.append(Step("delete", _group(pod), name))
            case Create() if action.resource == CONTROLLER_REVISIONS:
                made = msgspec.convert(_with_uid(dict(action.manifest)), ControllerRevision)
                revisions[made.metadata.name] = made
            case Patch() if action.resource == CONTROLLER_REVISIONS:
                revisions[action.key.name] = _patched(revisions[action.key.name], action.patch)
            case _:
                return


def _matters(action: Action) -> bool:
    """Whether more may follow. Other objects, and annotations of Pods, are not part of this model."""
    if isinstance(action, Patch):
        return action.resource == CONTROLLER_REVISIONS
    return isinstance(action, Create | Delete) and action.resource in (PODS, CONTROLLER_REVISIONS)


def _group(pod: Pod) -> str:
    return pod.metadata.labels.get(names.LABEL_GROUP, "")


def _with_uid(manifest: dict[str, Any]) -> dict[str, Any]:
    meta = manifest["metadata"]
    return {**manifest, "metadata": {**meta, "uid": f"new-{meta['name']}"}}


def _ready(manifest: dict[str, Any], snapshot: ClusterSnapshot) -> Pod:
    """The Pod as it will be soon. It has been ready for a day: nobody waits for minReadySeconds here."""
    long_ago = format_time(snapshot.now - timedelta(days=60))
    body = _with_uid(manifest)
    body["metadata"] = {**body["metadata"], "creationTimestamp": format_time(snapshot.now)}
    body["spec"] = {key: one for key, one in body["spec"].items() if key != "schedulingGates"}
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": long_ago}
    return msgspec.convert({**body, "status": {"phase": "Running", "conditions": [condition]}}, Pod)


def _patched(revision: ControllerRevision, patch: Any) -> ControllerRevision:
    meta = revision.metadata
    notes = {**meta.annotations, **(patch.get("metadata", {}).get("annotations") or {})}
    kept = {name: value for name, value in notes.items() if value is not None}
    return msgspec.structs.replace(
        revision,
        revision=patch.get("revision", revision.revision),
        metadata=msgspec.structs.replace(meta, annotations=kept),
    )
