"""Rolling updates from any spec to any other, with crashes: the limits hold, and it ends.

The scenario is in dictionaries (support/raycluster_scenario.py). Pods become ready and go away when chance
says so; the operator may crash after every single action, with or without its status. Beside the groups that are
edited there is one of another size each time, whose new Pods never start.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manta.api.ray import names
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import still_counts
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Create, Delete
from manta.reconcile.plan import Plan
from manta.rules.pod_health import is_ready
from support.raycluster_scenario import Scenario, set_running
from support.rollout import (
    REDIS,
    a_cluster,
    a_rollout,
    condition,
    image_of,
    revisions,
    rolling,
    workers,
)

IMAGES = tuple(f"rayproject/ray:2.60.{number}" for number in range(3))
NO_ROOM = "full"
"""The group whose new Pods never start."""
amounts = st.one_of(st.integers(0, 3), st.sampled_from(["1%", "34%", "100%"]))


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, Any]:
    surge, unavailable = draw(st.none() | amounts), draw(st.none() | amounts)
    zero = (0, None)
    if surge in zero and unavailable in zero:
        unavailable = 1
    options = {"maxSurge": surge, "maxUnavailable": unavailable}
    return rolling(**{name: value for name, value in options.items() if value is not None})


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    groups = [
        workers(
            name,
            draw(st.integers(0, 4)),
            draw(st.sampled_from(IMAGES)),
            numOfHosts=draw(st.sampled_from([1, 1, 2])),
        )
        for name in ("a", "b")[: draw(st.integers(1, 2))]
    ]
    groups.insert(draw(st.integers(0, len(groups))), workers(NO_ROOM, draw(st.integers(0, 3))))
    head = {"template": workers(image=draw(st.sampled_from(IMAGES)))["template"]}
    return {"groups": groups, "head": head}


def spec_of(one: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return a_cluster(*one["groups"], head=one["head"], **more)


def availability(scenario: Scenario) -> dict[str, tuple[int, int]]:
    """Available units of each group, and how many must be."""
    rollout = scenario.snapshot().rollout
    groups = rollout.groups if rollout else ()
    return {one.name: (one.available, one.wanted - one.limits.unavailable) for one in groups}


def reconcile(scenario: Scenario, fail_at: int | None = None, *, report: bool = True) -> Plan:
    """One round, which ends after `fail_at` actions; the limits are checked before and after."""
    before, count = availability(scenario), 0

    def fault(_: Action) -> Exception | None:
        nonlocal count
        count += 1
        failed = fail_at is not None and count > fail_at
        return ApiError(500, "InternalError", "injected") if failed else None

    scenario.serial += 1
    snapshot = scenario.snapshot()
    chosen = scenario.plan()
    assert chosen == scenario.plan(), "two plans from one state differ"
    outcome = scenario.perform(chosen, fault)
    if report:
        scenario.report(snapshot, outcome)
    check(scenario, chosen, before)
    return chosen


def check(scenario: Scenario, chosen: Plan, before: dict[str, tuple[int, int]]) -> None:
    snapshot = scenario.snapshot()
    heads = [pod for pod in snapshot.head_pods if still_counts(snapshot, pod)]
    assert len(heads) <= 1, "two heads"
    created = {
        one.manifest["metadata"]["labels"][names.LABEL_GROUP]
        for one in chosen.actions
        if isinstance(one, Create) and one.resource.kind == "Pod"
    }
    rollout = snapshot.rollout
    assert rollout is not None
    for one in rollout.groups:
        if one.name in created:
            assert len(one.units) <= one.wanted + one.limits.surge, "more than the surge"
        was, least = before.get(one.name, (0, 0))
        assert one.available >= min(was, least), "fewer than allowed, by our own deletions"
    deletes = [one for one in chosen.actions if isinstance(one, Delete)]
    assert len({one.key for one in deletes}) == len(deletes), "deleted twice"
    replaced = {one.key.name for one in deletes if one.cause == Cause.ROLLED_WORKER}
    groups = {
        pod.metadata.labels[names.LABEL_GROUP]
        for pod in snapshot.worker_pods
        if pod.metadata.name in replaced
    }
    assert len(groups) <= 1, "two groups at once"
    assert not any(one.cause == Cause.ROLLED_HEAD for one in deletes) or not groups, "head not last"


def advance(scenario: Scenario, random: Random) -> None:
    """Some Pods that were deleted are gone, some that were created are ready."""
    for (resource, name), one in list(scenario.objects.items()):
        if one["metadata"].get("deletionTimestamp") and random.random() < 0.6:
            del scenario.objects[resource, name]
    for pod in scenario.of("Pod"):
        if "status" in pod:
            continue
        if pod["metadata"]["labels"][names.LABEL_GROUP] == NO_ROOM:
            pod["status"] = {"phase": "Pending"}
        elif random.random() < 0.6:
            set_running(pod)
    scenario.now += timedelta(seconds=3)


def converge(scenario: Scenario, random: Random) -> None:
    quiet = 0
    for _ in range(400):
        writes = scenario.status_writes
        chosen = reconcile(scenario)
        advance(scenario, random)
        waits = chosen.wait is not None and chosen.wait.retry_in is not None
        still = not chosen.actions and not waits and scenario.status_writes == writes
        moving = any(
            "status" not in pod or pod["metadata"].get("deletionTimestamp")
            for pod in scenario.of("Pod")
        )
        quiet = quiet + 1 if still and not moving and scenario.held_since is None else 0
        if quiet >= 2:
            return
    raise AssertionError(f"it does not end: {scenario.plan()}")


def check_arrived(scenario: Scenario, wanted: dict[str, Any]) -> None:
    for one in wanted["groups"]:
        pods = scenario.workers(one["groupName"])
        if one["groupName"] == NO_ROOM:
            assert len(pods) == one["replicas"]
            continue
        image = one["template"]["spec"]["containers"][0]["image"]
        assert {image_of(pod) for pod in pods} <= {image}
        assert len(pods) == one["replicas"] * one["numOfHosts"]
    [head] = scenario.heads()
    assert image_of(head) == wanted["head"]["template"]["spec"]["containers"][0]["image"]
    for pod in scenario.snapshot().pods:
        assert is_ready(pod) or pod.metadata.labels[names.LABEL_GROUP] == NO_ROOM
    assert condition(scenario)[:2] == ("False", "Complete")
    numbers = sorted(revisions(scenario))
    assert len(set(numbers)) == len(numbers)


crashes = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8)
MORE: dict[str, Any] = {"gcsFaultToleranceOptions": REDIS}


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(specs(), st.lists(specs(), min_size=1, max_size=3), strategies(), crashes, st.integers())
def test_any_edit_ends_within_the_limits_whatever_crashes(
    first: dict[str, Any],
    edits: list[dict[str, Any]],
    strategy: dict[str, Any],
    faults: list[tuple[int, bool]],
    seed: int,
) -> None:
    random, more = Random(seed), {**MORE, "upgradeStrategy": strategy}
    scenario = a_rollout(*first["groups"], head=first["head"], **more)
    for wanted in edits:
        scenario.set_spec(spec_of(wanted, more))
        for fail_at, reported in faults:
            reconcile(scenario, fail_at, report=reported)
            advance(scenario, random)
    converge(scenario, random)
    check_arrived(scenario, edits[-1])
    for _ in range(2):
        scenario.now += timedelta(minutes=10)
        assert scenario.reconcile().actions == ()
