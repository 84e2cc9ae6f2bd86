"""The RayCluster controller from any world: it gets where the spec points, and rests there.

Convergence, crash safety after every single action, idempotence, and bounds that hold in every
round. The world is in dictionaries (support/raycluster_world.py); time moves by the round.
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
from manta.controllers.raycluster.planners.terminating import still_counts
from manta.kube.errors import ApiError
from manta.reconcile.actions import Action, Create, Delete
from manta.reconcile.plan import Plan
from manta.rules.pod_health import beyond_repair, is_terminating
from manta.rules.scaling import desired_pods, desired_workers, max_replicas
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import group, ray_cluster
from support.raycluster_world import EPOCH, UID, World, decode, set_failed, set_running

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


def a_world(manifest: dict[str, Any], found: list[dict[str, Any]], *, service: bool) -> World:
    spec = {key: value for key, value in manifest["spec"].items() if value is not None}
    world = World(decode({**manifest, "spec": spec}), GUARDED)
    for number, one in enumerate(found):
        _put(world, f"p{number}", one)
    if service:
        meta = {"name": "demo-head-svc", "ownerReferences": OURS}
        body = {"type": "ClusterIP", "clusterIP": "None", "selector": {"wrong": "yes"}}
        world.put(SERVICES, {"kind": "Service", "metadata": meta, "spec": body})
    return world


def _put(world: World, name: str, one: dict[str, Any]) -> None:
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
    pod = world.put(PODS, {"kind": "Pod", "metadata": meta, "spec": spec})
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


worlds = st.builds(a_world, specs, pods, service=st.booleans())


def advance(world: World) -> None:
    """The rest of the world does its part: Pods start, become ready, or are gone."""
    world.bury()
    world.issue_certificates()
    for pod in world.of("Pod"):
        status = pod.get("status") or {}
        if status.get("phase") in (None, "Running"):
            set_running(pod)
    world.now += timedelta(seconds=30)


def converge(world: World, rounds: int = 40) -> None:
    for _ in range(rounds):
        writes = world.status_writes
        chosen = checked_round(world)
        waits = chosen.wait is not None and chosen.wait.retry_in is not None
        rests = not chosen.actions and not waits and world.status_writes == writes
        if rests and is_still(world):
            return
        advance(world)
    raise AssertionError(f"no rest: {world.plan()}")


def is_still(world: World) -> bool:
    if world.noticed is not None:
        return False  # progress waits to be written
    views = [msgspec.convert(pod, Pod) for pod in world.of("Pod")]
    return all("status" in pod for pod in world.of("Pod")) and not any(map(is_terminating, views))


def checked_round(world: World, fail_at: int | None = None, *, report: bool = True) -> Plan:
    """One round; what must hold in every round is checked before it is carried out."""
    world.serial += 1
    seen = world.seen()
    chosen = world.plan()
    assert chosen == world.plan(), "two looks at one world disagree"
    check_bounds(world, chosen)
    count = 0

    def fault(action: Action) -> Exception | None:
        nonlocal count
        count += 1
        failed = fail_at is not None and count > fail_at
        return ApiError(500, "InternalError", "injected") if failed else None

    outcome = world.perform(chosen, fault)
    if report:
        world.report(seen, outcome)
    return chosen


def check_bounds(world: World, chosen: Plan) -> None:
    seen, spec = world.seen(), world.cluster.spec
    deletes = [one for one in chosen.actions if isinstance(one, Delete)]
    assert all(one.uid for one in deletes)
    assert len({one.key for one in deletes}) == len(deletes), "deleted twice in one round"
    leaving = {pod.metadata.name for pod in seen.pods if is_terminating(pod)}
    lost = {one.key.name for one in deletes if one.cause == Cause.POD_LOST}
    assert lost <= leaving, "taken for lost although nobody deleted it"
    assert not leaving & {one.key.name for one in deletes} - lost, "deleted although it is going"
    if spec.tls_options and not all(one.has_been_issued for one in _leaves(world)):
        assert not any(isinstance(one, Create) and one.resource == PODS for one in chosen.actions)
    heads = [one for one in chosen.actions if one.cause == Cause.NO_HEAD]
    assert len(heads) + len(seen.head_pods) <= max(1, len(seen.head_pods)), "a second head"
    if spec.enable_in_tree_autoscaling:
        assert Cause.SCALE_DOWN not in {one.cause for one in chosen.actions}
    for one in spec.worker_group_specs:
        mine = seen.workers_by_group.get(one.group_name, ())
        made = [
            action
            for action in chosen.actions
            if isinstance(action, Create)
            and action.cause == Cause.SCALE_UP
            and action.manifest["metadata"]["labels"][names.LABEL_GROUP] == one.group_name
        ]
        if made:
            present = sum(still_counts(seen, pod) for pod in mine)
            assert len(made) + present <= max_replicas(one) * one.num_of_hosts


def _leaves(world: World) -> list[Certificate]:
    """The certificates of head and workers; one that nobody asked for yet is not issued."""
    known = world.seen().certificates
    return [known.get(f"ray-{one}-cert-demo", Certificate()) for one in ("head", "worker")]


def check_arrived(world: World) -> None:
    """The world is what the spec asks for."""
    seen, spec = world.seen(), world.cluster.spec
    assert not any(beyond_repair(pod) for pod in seen.pods)
    if spec.suspend:
        assert not seen.pods
        assert world.cluster.status.state == "suspended"
        return
    assert len(seen.head_pods) == 1
    wanted = {one.group_name: desired_pods(one) for one in spec.worker_group_specs}
    found = {one: len(seen.workers_by_group.get(one, ())) for one in wanted}
    assert not set(seen.workers_by_group) - set(wanted), "Pods of a group that is gone"
    if spec.enable_in_tree_autoscaling:
        assert all(found[one] >= wanted[one] for one in wanted)
    else:
        assert found == wanted
    if found == wanted:
        assert world.cluster.status.state == "ready"
        assert world.cluster.status.ready_worker_replicas == desired_workers(spec)
        assert "Blocked" not in {one.type for one in world.cluster.status.conditions}


@given(worlds)
def test_from_any_world_it_arrives_and_rests(world: World) -> None:
    converge(world)
    check_arrived(world)
    for _ in range(3):
        world.now += timedelta(minutes=5)
        writes = world.status_writes
        assert world.round().actions == ()
        assert world.status_writes == writes


@given(worlds, st.lists(st.integers(0, 4), max_size=6), st.booleans())
def test_a_crash_after_any_action_is_made_good(
    world: World, crashes: list[int], told: bool
) -> None:
    """The round ends after so many actions; its status is written, or not even that."""
    for done in crashes:
        checked_round(world, fail_at=done, report=told)
        advance(world)
    converge(world)
    check_arrived(world)


@given(worlds, specs)
def test_a_change_of_mind_on_the_way_is_followed(world: World, other: dict[str, Any]) -> None:
    checked_round(world)
    advance(world)
    world.set_spec({"spec": {key: one for key, one in other["spec"].items() if one is not None}})
    converge(world)
    if world.seen().condition("RayClusterSuspended") and world.cluster.spec.suspend is None:
        assert not world.pods  # an absent `suspend` does not resume: KubeRay's rule
    else:
        check_arrived(world)


@given(worlds, st.booleans(), st.booleans(), st.integers(0, 2))
def test_whatever_fails_a_deleted_cluster_is_let_go_in_time(
    world: World, pods_go: bool, job_ends: bool, fail_at: int
) -> None:
    """Pods that never go, a cleanup Job that never ends, writes that fail: 300 seconds, not more."""
    meta = msgspec.structs.replace(
        world.cluster.metadata,
        finalizers=("foreign", names.FINALIZER_REDIS_CLEANUP),
        deletion_timestamp=format_time(world.now),
    )
    world.cluster = msgspec.structs.replace(world.cluster, metadata=meta)
    for number in range(31):
        checked_round(world, fail_at=fail_at if number % 2 else None)
        if pods_go:
            world.bury()
        if job_ends:
            for job in world.of("Job"):
                job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        world.now += timedelta(seconds=10)
    checked_round(world)
    assert world.cluster.metadata.finalizers == ("foreign",)
    assert Cause.NO_HEAD not in {one.cause for one in world.log}
    assert Cause.SCALE_UP not in {one.cause for one in world.log}
