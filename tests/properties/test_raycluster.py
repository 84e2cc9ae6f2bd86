"""The RayCluster controller from any state: it reaches what the spec asks for, and stops there.

Convergence, crash safety after every single action, idempotence, and bounds that hold in every
round. The scenario is in dictionaries (support/raycluster_scenario.py); time moves by the round.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from manta.api.certificates import Certificate
from manta.api.core import Pod
from manta.api.ray import names
from manta.api.resources import PODS, SERVICES
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import still_counts
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Create, Delete
from manta.reconcile.plan import Plan
from manta.rules.pod_health import beyond_repair, is_terminating
from manta.rules.scaling import desired_pods, desired_workers, max_replicas
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import EPOCH, UID, Scenario, decode, set_failed, set_running

NOBODY: list[dict[str, Any]] = []
OURS = [
    {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "name": "demo",
        "uid": UID,
        "controller": True,
    }
]
GROUPS = ("a", "b", "gone")

groups = st.lists(
    st.builds(
        group,
        name=st.sampled_from(GROUPS[:2]),
        # Small sizes for many Pods: surplus must be as common as want, or nobody chooses victims.
        replicas=st.none() | st.integers(0, 4),
        minReplicas=st.sampled_from([0, 0, 1, 2]),
        maxReplicas=st.integers(2, 3),
        numOfHosts=st.sampled_from([1, 1, 1, 2, 3]),
        scaleStrategy=st.fixed_dictionaries(
            {"workersToDelete": st.lists(st.sampled_from(["p0", "p1", "p2", "x"]), max_size=2)}
        ),
    ),
    max_size=2,
    unique_by=lambda one: one["groupName"],
)
specs = st.builds(
    ray_cluster,
    groups=groups,
    enableInTreeAutoscaling=st.booleans(),
    authOptions=st.none() | st.just({"mode": "token"}),
    gcsFaultToleranceOptions=st.none() | st.just({"redisAddress": "redis:6379"}),
    upgradeStrategy=st.none() | st.just({"type": "Recreate"}),
    suspend=st.none() | st.booleans(),
    tlsOptions=st.none() | st.just({"enabled": True}),
)
GUARDED = Settings(gates=FeatureGates(ray_cluster_mtls=True), cert_manager=True)
pods = st.lists(
    st.fixed_dictionaries(
        {
            "node": st.sampled_from(["head", "worker", "worker", "worker"]),
            "group": st.sampled_from(["a", "a", *GROUPS]),
            "owner": st.sampled_from([OURS, OURS, OURS, NOBODY]),
            "life": st.sampled_from(
                ["new", "running", "ready", "ready", "ready", "failed", "going", "lost"]
            ),
            "index": st.none() | st.integers(0, 3),
            "replica": st.none() | st.sampled_from(["r1", "r2"]),
            "age": st.integers(0, 900),
        }
    ),
    max_size=8,
)


def a_scenario(manifest: dict[str, Any], found: list[dict[str, Any]], *, service: bool) -> Scenario:
    spec = {key: value for key, value in manifest["spec"].items() if value is not None}
    scenario = Scenario(decode({**manifest, "spec": spec}), GUARDED)
    for number, one in enumerate(found):
        _put(scenario, f"p{number}", one)
    if service:
        meta = {"name": "demo-head-svc", "ownerReferences": OURS}
        body = {"type": "ClusterIP", "clusterIP": "None", "selector": {"wrong": "yes"}}
        scenario.put(SERVICES, {"kind": "Service", "metadata": meta, "spec": body})
    return scenario


def _put(scenario: Scenario, name: str, one: dict[str, Any]) -> None:
    labels = {
        names.LABEL_CLUSTER: "demo",
        names.LABEL_NODE_TYPE: one["node"],
        names.LABEL_GROUP: names.HEAD_GROUP if one["node"] == "head" else one["group"],
    }
    if one["index"] is not None:
        labels[names.LABEL_REPLICA_INDEX] = str(one["index"])
    if one["replica"] is not None:
        labels[names.LABEL_REPLICA_NAME] = one["replica"]
    meta = {
        "name": name,
        "namespace": "default",
        "labels": labels,
        "ownerReferences": one["owner"],
        "creationTimestamp": format_time(EPOCH - timedelta(seconds=one["age"])),
    }
    spec = {"containers": [{"name": "ray"}], "restartPolicy": "Never"}
    pod = scenario.put(PODS, {"kind": "Pod", "metadata": meta, "spec": spec})
    match one["life"]:
        case "running":
            set_running(pod, ready=False)
        case "ready":
            set_running(pod)
        case "failed":
            set_failed(pod, EPOCH)
        case "going":
            set_running(pod)
            pod["metadata"]["deletionTimestamp"] = format_time(EPOCH + timedelta(seconds=20))
        case "lost":
            set_running(pod)
            pod["metadata"]["deletionTimestamp"] = format_time(EPOCH - timedelta(hours=1))
        case _:
            assert one["life"] == "new"


scenarios = st.builds(a_scenario, specs, pods, service=st.booleans())


def advance(scenario: Scenario) -> None:
    """Do what kubelet and API server do: Pods start, become ready, or are gone."""
    scenario.remove_deleted()
    scenario.issue_certificates()
    for pod in scenario.of("Pod"):
        status = pod.get("status") or {}
        if status.get("phase") in (None, "Running"):
            set_running(pod)
    scenario.now += timedelta(seconds=30)


def converge(scenario: Scenario, rounds: int = 40) -> None:
    for _ in range(rounds):
        writes = scenario.status_writes
        chosen = checked_round(scenario)
        waits = chosen.wait is not None and chosen.wait.retry_in is not None
        rests = not chosen.actions and not waits and scenario.status_writes == writes
        if rests and is_still(scenario):
            return
        advance(scenario)
    raise AssertionError(f"no rest: {scenario.plan()}")


def is_still(scenario: Scenario) -> bool:
    if scenario.held_since is not None:
        return False  # progress waits to be written
    views = [msgspec.convert(pod, Pod) for pod in scenario.of("Pod")]
    return all("status" in pod for pod in scenario.of("Pod")) and not any(
        map(is_terminating, views)
    )


def checked_round(scenario: Scenario, fail_at: int | None = None, *, report: bool = True) -> Plan:
    """One round; what must hold in every round is checked before it is carried out."""
    scenario.serial += 1
    snapshot = scenario.snapshot()
    chosen = scenario.plan()
    assert chosen == scenario.plan(), "two plans from one state differ"
    check_bounds(scenario, chosen)
    count = 0

    def fault(action: Action) -> Exception | None:
        nonlocal count
        count += 1
        failed = fail_at is not None and count > fail_at
        return ApiError(500, "InternalError", "injected") if failed else None

    outcome = scenario.perform(chosen, fault)
    if report:
        scenario.report(snapshot, outcome)
    return chosen


def check_bounds(scenario: Scenario, chosen: Plan) -> None:
    snapshot, spec = scenario.snapshot(), scenario.cluster.spec
    deletes = [one for one in chosen.actions if isinstance(one, Delete)]
    assert all(one.uid for one in deletes)
    assert len({one.key for one in deletes}) == len(deletes), "deleted twice in one round"
    leaving = {pod.metadata.name for pod in snapshot.pods if is_terminating(pod)}
    lost = {one.key.name for one in deletes if one.cause == Cause.POD_LOST}
    assert lost <= leaving, "taken for lost although nobody deleted it"
    assert not leaving & {one.key.name for one in deletes} - lost, "deleted although it is going"
    if spec.tls_options and not all(one.has_been_issued for one in _leaves(scenario)):
        assert not any(isinstance(one, Create) and one.resource == PODS for one in chosen.actions)
    heads = [one for one in chosen.actions if one.cause == Cause.NO_HEAD]
    assert len(heads) + len(snapshot.head_pods) <= max(1, len(snapshot.head_pods)), "a second head"
    if spec.enable_in_tree_autoscaling:
        assert Cause.SCALE_DOWN not in {one.cause for one in chosen.actions}
    for one in spec.worker_group_specs:
        mine = snapshot.workers_by_group.get(one.group_name, ())
        made = [
            action
            for action in chosen.actions
            if isinstance(action, Create)
            and action.cause == Cause.SCALE_UP
            and action.manifest["metadata"]["labels"][names.LABEL_GROUP] == one.group_name
        ]
        if made:
            present = sum(still_counts(snapshot, pod) for pod in mine)
            assert len(made) + present <= max_replicas(one) * one.num_of_hosts


def _leaves(scenario: Scenario) -> list[Certificate]:
    """The certificates of head and workers; one that nobody asked for yet is not issued."""
    known = scenario.snapshot().certificates
    return [known.get(f"ray-{one}-cert-demo", Certificate()) for one in ("head", "worker")]


def check_arrived(scenario: Scenario) -> None:
    """The objects are what the spec asks for."""
    snapshot, spec = scenario.snapshot(), scenario.cluster.spec
    assert not any(beyond_repair(pod) for pod in snapshot.pods)
    if spec.suspend:
        assert not snapshot.pods
        assert scenario.cluster.status.state == "suspended"
        return
    assert len(snapshot.head_pods) == 1
    wanted = {one.group_name: desired_pods(one) for one in spec.worker_group_specs}
    found = {one: len(snapshot.workers_by_group.get(one, ())) for one in wanted}
    assert not set(snapshot.workers_by_group) - set(wanted), "Pods of a group that is gone"
    if spec.enable_in_tree_autoscaling:
        assert all(found[one] >= wanted[one] for one in wanted)
    else:
        assert found == wanted
    if found == wanted:
        assert scenario.cluster.status.state == "ready"
        assert scenario.cluster.status.ready_worker_replicas == desired_workers(spec)
        assert "Blocked" not in {one.type for one in scenario.cluster.status.conditions}


@given(scenarios)
def test_it_converges_from_any_state(scenario: Scenario) -> None:
    converge(scenario)
    check_arrived(scenario)
    for _ in range(3):
        scenario.now += timedelta(minutes=5)
        writes = scenario.status_writes
        assert scenario.reconcile().actions == ()
        assert scenario.status_writes == writes


@given(scenarios, st.lists(st.integers(0, 4), max_size=6), st.booleans())
def test_a_crash_after_any_action_is_made_good(
    scenario: Scenario, crashes: list[int], reported: bool
) -> None:
    """The round ends after so many actions; its status is written, or not even that."""
    for done in crashes:
        checked_round(scenario, fail_at=done, report=reported)
        advance(scenario)
    converge(scenario)
    check_arrived(scenario)


@given(scenarios, specs)
def test_a_change_of_mind_on_the_way_is_followed(scenario: Scenario, other: dict[str, Any]) -> None:
    checked_round(scenario)
    advance(scenario)
    scenario.set_spec({"spec": {key: one for key, one in other["spec"].items() if one is not None}})
    converge(scenario)
    if (
        scenario.snapshot().condition("RayClusterSuspended")
        and scenario.cluster.spec.suspend is None
    ):
        assert not scenario.pods  # an absent `suspend` does not resume: KubeRay's rule
    else:
        check_arrived(scenario)


@given(scenarios, st.booleans(), st.booleans(), st.integers(0, 2))
def test_whatever_fails_a_deleted_cluster_is_let_go_in_time(
    scenario: Scenario, pods_go: bool, job_ends: bool, fail_at: int
) -> None:
    """Pods that never go, a cleanup Job that never ends, writes that fail: 300 seconds, not more."""
    meta = msgspec.structs.replace(
        scenario.cluster.metadata,
        finalizers=("foreign", names.FINALIZER_REDIS_CLEANUP),
        deletion_timestamp=format_time(scenario.now),
    )
    scenario.cluster = msgspec.structs.replace(scenario.cluster, metadata=meta)
    for number in range(31):
        checked_round(scenario, fail_at=fail_at if number % 2 else None)
        if pods_go:
            scenario.remove_deleted()
        if job_ends:
            for job in scenario.of("Job"):
                job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        scenario.now += timedelta(seconds=10)
    checked_round(scenario)
    assert scenario.cluster.metadata.finalizers == ("foreign",)
    assert Cause.NO_HEAD not in {one.cause for one in scenario.log}
    assert Cause.SCALE_UP not in {one.cause for one in scenario.log}
