"""Rolling updates for tests: a scenario whose Pods start and end step by step, and what must hold always."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from manta.api.conditions import find
from manta.api.ray import names
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import still_counts
from manta.reconcile.actions import Action, Create, Delete
from manta.reconcile.plan import Plan
from manta.rules.pod_health import is_ready, is_terminating
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode, set_running

NEXT = "rayproject/ray:2.60.1"
BAD = "rayproject/ray:bad"
REDIS = {"redisAddress": "redis:6379"}


def rolling(**options: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", **({"rollingUpdate": options} if options else {})}


def workers(
    name: str = "workers", replicas: int = 3, image: str = "", **fields: Any
) -> dict[str, Any]:
    made = template(container(image=image)) if image else template()
    return group(name, replicas, template=made, **fields)


def a_cluster(*groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec.setdefault("upgradeStrategy", rolling())
    return ray_cluster(groups=list(groups) or [workers()], **spec)


def a_rollout(*groups: dict[str, Any], **spec: Any) -> Scenario:
    """A cluster whose Pods are all ready, of its first revision."""
    scenario = Scenario(decode(a_cluster(*groups, **spec)))
    scenario.settle()
    scenario.log.clear()
    return scenario


def edit(scenario: Scenario, *groups: dict[str, Any], **spec: Any) -> None:
    scenario.set_spec(a_cluster(*groups, **spec))


def image_of(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def starts(pod: dict[str, Any]) -> bool:
    """Whether the image of the Pod can be pulled."""
    return image_of(pod) != BAD


def tick(scenario: Scenario, seconds: int = 3) -> None:
    """Pods that were deleted are gone, Pods that were created are ready; a worker only beside a head that is."""
    scenario.remove_deleted()
    for pod in sorted(scenario.of("Pod"), key=is_worker):
        if "status" not in pod and not starts(pod):
            set_pulling(pod)
        elif "status" not in pod and (not is_worker(pod) or has_head(scenario)):
            set_running(pod)
    scenario.now += timedelta(seconds=seconds)


def is_worker(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"][names.LABEL_NODE_TYPE] == names.NODE_WORKER)


def has_head(scenario: Scenario) -> bool:
    return any(is_ready(pod) for pod in scenario.snapshot().head_pods)


def set_pulling(pod: dict[str, Any]) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": f"no such image: {image_of(pod)}"}
    name = pod["spec"]["containers"][0]["name"]
    pod["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": name, "ready": False, "state": {"waiting": waiting}}],
    }


def roll(scenario: Scenario, rounds: int = 120, seconds: int = 3) -> None:
    """Reconcile until nothing happens any more; check the limits in every round."""
    quiet = 0
    for _ in range(rounds):
        writes = scenario.status_writes
        chosen = scenario.reconcile()
        check_limits(scenario, chosen)
        tick(scenario, seconds)
        is_still = not chosen.actions and scenario.status_writes == writes
        quiet = quiet + 1 if is_still and not awaits_deadline(scenario) else 0
        if quiet >= 3 and scenario.held_since is None:
            return
    raise AssertionError(f"no rest after {rounds} reconciles: {scenario.plan()}")


def awaits_deadline(scenario: Scenario) -> bool:
    rollout = scenario.snapshot().rollout
    return rollout is not None and bool(rollout.stalls_in or rollout.next_available)


def check_limits(scenario: Scenario, chosen: Plan) -> None:
    """Nobody creates more Pods than replicas and surge, and there are never two heads."""
    snapshot = scenario.snapshot()
    heads = [pod for pod in snapshot.head_pods if still_counts(snapshot, pod)]
    assert len(heads) <= 1, "two heads"
    rollout = snapshot.rollout
    created = {step(one).removeprefix("create ") for one in chosen.actions}
    for one in rollout.groups if rollout else ():
        if one.name not in created:
            continue  # a group that shrinks has more for a while
        assert len(one.units) <= one.wanted + one.limits.surge, f"{one.name} has too many"


def ready_workers(scenario: Scenario, group_name: str = "workers") -> int:
    pods = scenario.snapshot().workers_by_group.get(group_name, ())
    return sum(is_ready(pod) and not is_terminating(pod) for pod in pods)


def condition(scenario: Scenario) -> tuple[str, str, str]:
    found = find(scenario.cluster.status.conditions, "RollingUpdate")
    assert found is not None
    return found.status, found.reason, found.message


def images(scenario: Scenario, group_name: str = "workers") -> list[str]:
    return [image_of(pod) for pod in scenario.workers(group_name)]


def steps(scenario: Scenario) -> list[str]:
    """What was done to Pods, without names."""
    return [word for one in scenario.log if (word := step(one))]


def step(one: Action) -> str:
    if isinstance(one, Create) and one.resource.kind == "Pod":
        return f"create {one.manifest['metadata']['labels'][names.LABEL_GROUP]}"
    if isinstance(one, Delete) and one.resource.kind == "Pod":
        what = "head" if one.cause in (Cause.ROLLED_HEAD, Cause.UNHEALTHY_HEAD) else "worker"
        return f"delete {what}"
    return ""


def revisions(scenario: Scenario) -> dict[int, dict[str, Any]]:
    return {one["revision"]: one for one in scenario.of("ControllerRevision")}


def annotate(scenario: Scenario, **annotations: str) -> None:
    meta = scenario.cluster.metadata
    changed = msgspec.structs.replace(meta, annotations={**meta.annotations, **annotations})
    scenario.cluster = msgspec.structs.replace(scenario.cluster, metadata=changed)
