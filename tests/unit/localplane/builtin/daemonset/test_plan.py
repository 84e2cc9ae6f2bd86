"""How a DaemonSet keeps one Pod on every node (U4)."""

from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.builtin.daemonset.plan import Cause, plan
from manta.localplane.builtin.daemonset.snapshot import DaemonSetSnapshot
from manta.localplane.builtin.daemonset.status import next_status
from manta.localplane.builtin.views import Node, Pod
from manta.localplane.builtin.workload_views import DaemonSet
from manta.reconcile.actions import Create
from support.plane_objects import NOW, a_node, a_pod, a_template, ago
from support.workload_objects import a_daemon, a_daemon_set, a_revision

REVISIONS = (a_revision("d", a_template("v0", "d"), 1), a_revision("d", a_template("v1", "d"), 2))
NODES = (a_node("n1"), a_node("n2"))


def a_snapshot(
    daemon_set: DaemonSet,
    *pods: Pod,
    nodes: tuple[Node, ...] = NODES,
    orphans: tuple[Pod, ...] = (),
) -> DaemonSetSnapshot:
    return DaemonSetSnapshot(daemon_set, pods, orphans, REVISIONS, nodes, NOW)


def done(snapshot: DaemonSetSnapshot) -> list[tuple[Any, str]]:
    return [(action.cause, action.key.name) for action in plan(snapshot).actions]


def rolling(**settings: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": settings}


def test_every_node_gets_a_pod_that_names_it() -> None:
    actions = plan(a_snapshot(a_daemon_set())).actions
    terms = []
    for create in actions:
        assert isinstance(create, Create)
        affinity = create.manifest["spec"]["affinity"]["nodeAffinity"]
        [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        terms += term["matchFields"]
    assert [one["values"] for one in terms] == [["n1"], ["n2"]]
    first = actions[0]
    assert isinstance(first, Create)
    keys = {one["key"] for one in first.manifest["spec"]["tolerations"]}
    assert {"node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"} <= keys


def test_a_pod_that_is_not_bound_yet_counts_for_the_node_that_it_names() -> None:
    [create] = plan(a_snapshot(a_daemon_set(), nodes=(a_node("n1"),))).actions
    assert isinstance(create, Create)
    affinity = create.manifest["spec"]["affinity"]
    waiting = a_daemon("p", "", affinity=affinity, phase="Pending", ready=False)
    assert done(a_snapshot(a_daemon_set(), waiting, nodes=(a_node("n1"),))) == []


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "node", "count"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, a_node("n1"), 0),
        ({"nodeSelector": {"disk": "ssd"}}, a_node("n1", labels={"disk": "ssd"}), 1),
        ({}, a_node("n1", taints=[TAINT]), 0),
        ({"tolerations": [{"operator": "Exists"}]}, a_node("n1", taints=[TAINT]), 1),
        ({}, a_node("n1", unschedulable=True), 1),
        ({"nodeName": "else"}, a_node("n1"), 0),
    ],
)
def test_only_eligible_nodes_get_a_pod(spec: dict[str, Any], node: Node, count: int) -> None:
    template = a_template("v1", "d")
    template["spec"] |= spec
    revision = a_revision("d", template, 3)
    snapshot = DaemonSetSnapshot(a_daemon_set(template=template), (), (), (revision,), (node,), NOW)
    assert len(plan(snapshot).actions) == count
    assert next_status(snapshot).desired_number_scheduled == count


def test_a_taint_that_forbids_new_pods_keeps_those_that_run() -> None:
    closed = a_node("n1", taints=[TAINT])
    snapshot = a_snapshot(a_daemon_set(), a_daemon("a", "n1"), nodes=(closed,))
    assert done(snapshot) == []
    assert next_status(snapshot).number_misscheduled == 1
    fatal = a_node("n1", taints=[{**TAINT, "effect": "NoExecute"}])
    snapshot = a_snapshot(a_daemon_set(), a_daemon("a", "n1"), nodes=(fatal,))
    assert done(snapshot) == [(Cause.SURPLUS, "a")]


def test_a_second_pod_and_the_pod_of_a_lost_node_go() -> None:
    twice = [a_daemon("a", "n1", meta={"creationTimestamp": ago(90)}), a_daemon("b", "n1")]
    nodes = (a_node("n1"),)
    assert done(a_snapshot(a_daemon_set(), *twice, nodes=nodes)) == [(Cause.SURPLUS, "b")]
    lost = a_daemon("c", "gone")
    assert done(a_snapshot(a_daemon_set(), twice[0], lost, nodes=nodes)) == [(Cause.SURPLUS, "c")]


def test_a_pod_that_ended_is_replaced_but_not_in_a_tight_loop() -> None:
    nodes = (a_node("n1"),)
    failed = a_daemon("a", "n1", phase="Failed", ready=False)
    assert done(a_snapshot(a_daemon_set(), failed, nodes=nodes)) == [(Cause.REPLACE, "a")]
    young = a_daemon("a", "n1", phase="Failed", ready=False, meta={"creationTimestamp": ago(3)})
    snapshot = a_snapshot(a_daemon_set(), young, nodes=nodes)
    wait = plan(snapshot).wait
    assert done(snapshot) == []
    assert wait is not None
    assert wait.retry_in is not None
    assert wait.retry_in.total_seconds() == 7


def test_an_update_leaves_all_but_the_allowed_number_available() -> None:
    old = [a_daemon("a", "n1", "v0"), a_daemon("b", "n2", "v0")]
    assert done(a_snapshot(a_daemon_set(), *old)) == [(Cause.UPDATE, "a")]
    both = a_daemon_set(updateStrategy=rolling(maxUnavailable="100%"))
    assert done(a_snapshot(both, *old)) == [(Cause.UPDATE, "a"), (Cause.UPDATE, "b")]


def test_an_update_waits_for_the_pod_that_was_replaced() -> None:
    starting = a_daemon("a", "n1", ready=False)
    assert done(a_snapshot(a_daemon_set(), starting, a_daemon("b", "n2", "v0"))) == []


def test_an_old_pod_that_does_not_work_goes_at_once() -> None:
    broken = a_daemon("a", "n1", "v0", ready=False)
    assert done(a_snapshot(a_daemon_set(), broken, a_daemon("b", "n2"))) == [(Cause.UPDATE, "a")]


def test_a_surge_starts_the_new_pod_before_the_old_one_goes() -> None:
    wanted = a_daemon_set(updateStrategy=rolling(maxSurge=1, maxUnavailable=0))
    old = [a_daemon("a", "n1", "v0"), a_daemon("b", "n2", "v0")]
    assert [cause for cause, _ in done(a_snapshot(wanted, *old))] == [Cause.CREATE]
    starting = a_daemon("a2", "n1", ready=False)
    assert done(a_snapshot(wanted, *old, starting)) == []
    assert done(a_snapshot(wanted, *old, a_daemon("a2", "n1"))) == [(Cause.UPDATE, "a")]


def test_on_delete_leaves_old_pods_alone() -> None:
    wanted = a_daemon_set(updateStrategy={"type": "OnDelete"})
    snapshot = a_snapshot(wanted, a_daemon("a", "n1", "v0"), nodes=(a_node("n1"),))
    assert done(snapshot) == []
    assert next_status(snapshot).updated_number_scheduled is None


def test_an_orphan_that_fits_is_adopted() -> None:
    orphan = a_pod("o", labels={"app": "d"}, node="n1")
    assert done(a_snapshot(a_daemon_set(), orphans=(orphan,))) == [(Cause.ADOPT, "o")]


def test_the_status_counts_nodes() -> None:
    status = next_status(a_snapshot(a_daemon_set(), a_daemon("a", "n1"), a_daemon("b", "n2", "v0")))
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (2, 2)
    assert (status.number_ready, status.number_available, status.number_unavailable) == (2, 2, None)
    assert status.updated_number_scheduled == 1
