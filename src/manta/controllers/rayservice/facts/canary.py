"""Where a canary is: its step, the workers of both clusters, the Pods that take requests, and what it waits for.

The status of the pending cluster records the step: `trafficRoutedPercent` is its weight, and
`lastTrafficMigratedTime` the time at which it was reached. KubeRay's CRD has both fields.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import WorkerGroupSpec
from manta.api.ray.service import CanaryStep
from manta.api.times import parse_optional_time
from manta.controllers.rayservice.facts.serve import current_desired_serve, serving_obstacle
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.manifests.canary_cluster import Sizes, recorded_sizes, sizes_of
from manta.manifests.serve_services import shared_selector
from manta.manifests.services import serve_ports
from manta.rules.canary import FULL, Group, capacity, split, step_at, weights
from manta.rules.canary_analysis import Judgement, Verdict, verdict
from manta.rules.pod_health import is_running, is_terminating
from manta.rules.scaling import desired_replicas, hosts, max_replicas
from manta.rules.traits import autoscaling

# ── the step ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Progress:
    number: int
    """Number of the step, from 1. The last step, to 100 %, follows those of the spec."""
    of: int
    weight: int
    step: CanaryStep
    reached_at: datetime | None
    """None: capacity and traffic still move."""

    @property
    def is_last(self) -> bool:
        return self.number == self.of


def progress(snapshot: ServiceSnapshot) -> Progress:
    """The step at the recorded weight."""
    side, options = snapshot.status.pending_service_status, snapshot.canary_options
    steps = (*options.steps, CanaryStep(weight=FULL))
    number = step_at(options, side.traffic_routed_percent)
    step = steps[number - 1]
    is_recorded = step.weight == side.traffic_routed_percent
    reached = parse_optional_time(side.last_traffic_migrated_time) if is_recorded else None
    return Progress(number, len(steps), step.weight, step, reached)


def next_weight(snapshot: ServiceSnapshot, now: Progress) -> int:
    return weights(snapshot.canary_options)[min(now.number, now.of - 1)]


def is_paused(snapshot: ServiceSnapshot) -> bool:
    """This canary, or with `true` every canary of the service."""
    text = snapshot.service.metadata.annotations.get(names.ANNOTATION_CANARY_PAUSE, "")
    return text in ("true", snapshot.pending_name) and bool(text)


def is_promoted(snapshot: ServiceSnapshot, number: int) -> bool:
    """Whether the user said that this step need not wait."""
    text = snapshot.service.metadata.annotations.get(names.ANNOTATION_CANARY_PROMOTE, "")
    cluster, _, step = text.partition("/")
    if cluster != snapshot.pending_name:
        return False
    return step == "all" or (step.isdecimal() and int(step) >= number)


def pause_left(snapshot: ServiceSnapshot, now: Progress) -> timedelta:
    """How long this step still pauses."""
    if now.reached_at is None:
        return timedelta(0)
    end = now.reached_at + timedelta(seconds=now.step.pause_seconds)
    return max(timedelta(0), end - snapshot.now)


def hold(snapshot: ServiceSnapshot, now: Progress) -> str:
    """Why the next step must wait although this one is reached; empty if it need not."""
    if now.reached_at is None:
        return ""
    service = snapshot.service.metadata.name
    if is_paused(snapshot):
        return f"it is paused; `manta upgrade resume {service}` continues it"
    if is_promoted(snapshot, now.number):
        return ""
    if pause_left(snapshot, now):
        end = now.reached_at + timedelta(seconds=now.step.pause_seconds)
        return f"the next step begins at {end:%H:%M:%S}"
    if now.step.until_promoted or not snapshot.canary_options.automatic:
        return f"`manta upgrade promote {service}` begins the next step"
    found = canary_verdict(snapshot)
    return found.text if found is not None and found.judgement is Judgement.HOLD else ""


def canary_verdict(snapshot: ServiceSnapshot) -> Verdict | None:
    """What the figures say; None if there are no limits."""
    analysis = snapshot.canary_options.analysis
    return verdict(analysis, snapshot.canary_reading) if analysis is not None else None


def canary_obstacle(snapshot: ServiceSnapshot) -> str:
    """Why the new cluster cannot take more traffic; empty if it can."""
    active, pending = snapshot.active, snapshot.pending
    if active is None or pending is None:
        return f"RayCluster {snapshot.pending_name} is about to be created"
    old, new = (serve_ports(one.cluster, one.head_pod) for one in (active, pending))
    if old != new:
        return (
            f"the serve ports of RayCluster {active.name} and {pending.name} differ: one Service"
            " cannot split traffic between them; use the upgrade type NewCluster"
        )
    return serving_obstacle(pending, current_desired_serve(snapshot, pending))


# ── workers ──────────────────────────────────────────────────────────────────────────────


def takes_part_in_canary(view: ClusterView) -> bool:
    """Whether the canary decides the size of this cluster, instead of the RayService's spec."""
    return names.ANNOTATION_FULL_SIZE in view.cluster.metadata.annotations


def full_sizes(snapshot: ServiceSnapshot, view: ClusterView | None) -> Sizes:
    """What each group of a cluster has without a canary."""
    if view is not None:
        recorded = recorded_sizes(view.cluster.metadata.annotations)
        return sizes_of(view.cluster.spec) if recorded is None else recorded
    like = full_sizes(snapshot, snapshot.active) if snapshot.active is not None else {}
    return sizes_of(snapshot.spec.ray_cluster_config, like)


def worker_groups(snapshot: ServiceSnapshot) -> tuple[Group, ...]:
    """The groups of the active and of the pending cluster; the pending one may not exist yet."""
    active, pending = snapshot.active, snapshot.pending
    assert active is not None
    old = full_sizes(snapshot, active)
    new = full_sizes(snapshot, pending) if snapshot.pending_name else {}
    others, host_counts = _pods(snapshot.leaving_pods), _hosts(active, pending)
    asked_old, asked_new = _asked(active), _asked(pending)
    held_old, held_new, runs = _held(active), _held(pending), _running(pending)
    return tuple(
        Group(
            name,
            full_old=old[name].replicas if name in old else 0,
            full_new=new[name].replicas if name in new else 0,
            old=asked_old.get(name, 0),
            new=asked_new.get(name, 0),
            old_held=held_old.get(name, 0),
            new_held=held_new.get(name, 0),
            new_ready=runs.get(name, 0),
            others_held=math.ceil(others[name] / max(1, host_counts.get(name, 1))),
        )
        for name in {**old, **new}
    )


def _asked(view: ClusterView | None) -> dict[str, int]:
    """The replicas for which a cluster is asked. An autoscaler may use fewer: then its upper bound."""
    if view is None:
        return {}
    bounded = takes_part_in_canary(view) and autoscaling(view.cluster.spec)
    return {
        one.group_name: max_replicas(one) if bounded else desired_replicas(one)
        for one in view.cluster.spec.worker_group_specs
    }


def _held(view: ClusterView | None) -> dict[str, int]:
    """Replicas that have a Pod, rounded up."""
    found = _pods(view.pods) if view is not None else Counter()
    return {
        one.group_name: math.ceil(found[one.group_name] / max(1, hosts(one)))
        for one in _groups(view)
    }


def _running(view: ClusterView | None) -> dict[str, int]:
    """Replicas that run. A worker without a Serve replica runs and is never ready, so that readiness
    is left to Serve. With an autoscaler: what it may use."""
    if view is None:
        return {}
    if autoscaling(view.cluster.spec):
        return _asked(view)
    alive = _pods(pod for pod in view.pods if is_running(pod) and not is_terminating(pod))
    return {one.group_name: alive[one.group_name] // max(1, hosts(one)) for one in _groups(view)}


def _pods(pods: Iterable[Pod]) -> Counter[str]:
    """Pods that hold resources, by group; the head is not counted."""
    return Counter(
        pod.metadata.labels.get(names.LABEL_GROUP, "")
        for pod in pods
        if pod.metadata.labels.get(names.LABEL_NODE_TYPE) != names.NODE_HEAD
        and pod.status.phase not in ("Succeeded", "Failed")
    )


def _groups(view: ClusterView | None) -> tuple[WorkerGroupSpec, ...]:
    return view.cluster.spec.worker_group_specs if view is not None else ()


def _hosts(*views: ClusterView | None) -> dict[str, int]:
    return {one.group_name: hosts(one) for view in views for one in _groups(view)}


def serve_capacity(groups: Iterable[Group], *, of_new: bool) -> int | None:
    """The target capacity of Serve for which a cluster has workers, in percent; None: all of it, with the
    config as the user wrote it."""
    counts = [(one.new, one.full_new) if of_new else (one.old, one.full_old) for one in groups]
    percent = capacity(counts)
    return None if percent == FULL else percent


# ── Pods behind the Service ──────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Chosen:
    """The Pods that take requests, of all that could."""

    old: tuple[Pod, ...]
    new: tuple[Pod, ...]
    others: tuple[Pod, ...]


def has_serving_label(snapshot: ServiceSnapshot, pod: Pod) -> bool:
    return pod.metadata.labels.get(names.LABEL_SERVING) == snapshot.service.metadata.name


def is_shared(snapshot: ServiceSnapshot) -> bool:
    """Whether the serve Service selects Pods of both clusters."""
    has = snapshot.serve_service
    return has is not None and dict(has.spec.selector) == shared_selector(snapshot.service)


def chosen_pods(
    snapshot: ServiceSnapshot, groups: tuple[Group, ...], weight: int, leaving: frozenset[str]
) -> Chosen:
    """As many Pods of each cluster as give the new one its weight, but never more than its capacity.

    Until the new cluster can serve, all Pods of the old one; while it starts more replicas, as many as before.
    """
    assert snapshot.active is not None
    old = [one for one in snapshot.active.serving_pods if one.metadata.uid not in leaving]
    new = list(snapshot.pending.serving_pods) if snapshot.pending is not None else []
    going = [one for one in snapshot.active.serving_pods if one.metadata.uid in leaving]
    obstacle = canary_obstacle(snapshot)
    if not new or (obstacle and not is_shared(snapshot)):
        return Chosen(tuple(old), (), (*new, *going))
    counts = split(able_weight(groups, weight), len(old), len(new))
    if obstacle:
        counts = _labelled(snapshot, old) or min(len(old), 1), _labelled(snapshot, new)
    first_old, first_new = _in_order(snapshot, old), _in_order(snapshot, new)
    return Chosen(
        tuple(first_old[: counts[0]]),
        tuple(first_new[: counts[1]]),
        (*first_old[counts[0] :], *first_new[counts[1] :], *going),
    )


def able_weight(groups: Iterable[Group], weight: int) -> int:
    """The weight, but never more than the capacity of the workers that run."""
    able = capacity((one.new_ready, one.full_new) for one in groups)
    return min(weight, max(able, 1))


def _labelled(snapshot: ServiceSnapshot, pods: Iterable[Pod]) -> int:
    return sum(has_serving_label(snapshot, pod) for pod in pods)


def _in_order(snapshot: ServiceSnapshot, pods: list[Pod]) -> list[Pod]:
    """The Pods that take requests now first; then workers before the head, then by name."""
    return sorted(
        pods,
        key=lambda one: (
            not has_serving_label(snapshot, one),
            one.metadata.labels.get(names.LABEL_NODE_TYPE) == names.NODE_HEAD,
            one.metadata.name,
        ),
    )


def pods_behind_service(snapshot: ServiceSnapshot) -> tuple[int, int]:
    """How many Pods of the old and of the new cluster take requests now."""
    old, new = snapshot.active, snapshot.pending
    if not is_shared(snapshot):
        return len(old.serving_pods) if old is not None else 0, 0
    return (
        _labelled(snapshot, old.serving_pods if old else ()),
        _labelled(snapshot, new.serving_pods if new else ()),
    )
