"""Which clusters exist, for every way in which a spec and a cluster can differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.controllers.rayservice.facts.clusters import (
    SpecMatch,
    is_rolling_back,
    is_upgrade_due,
    spec_match,
)
from manta.controllers.rayservice.planners.clusters import plan_clusters
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.outcome import UNTRIED
from manta.reconcile.step import Step
from manta.rules.settings import Settings
from support.canary import canary, gpu_config
from support.raycluster import group
from support.rayservice_objects import (
    a_cluster,
    a_snapshot,
    a_view,
    cluster_config,
    incremental,
    scaled_config,
    serving,
    upgrading,
)

NEXT = "rayproject/ray:2.61.0"
NEWER = {"rayClusterConfig": cluster_config(NEXT)}


def pending_after(snapshot: ServiceSnapshot) -> str:
    step = plan_clusters(snapshot)
    return step.status_change(snapshot.status, UNTRIED).pending_service_status.ray_cluster_name


def only_action(step: ServiceStep) -> Any:
    (action,) = step.plan.actions
    return action


def going(view: ClusterView) -> ClusterView:
    meta = msgspec.structs.replace(view.cluster.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return replace(view, cluster=msgspec.structs.replace(view.cluster, metadata=meta))


# ── comparing ────────────────────────────────────────────────────────────────────────────


def test_the_same_spec_is_the_same() -> None:
    assert spec_match(a_snapshot(), a_cluster("demo-a")) is SpecMatch.SAME


def test_replicas_bounds_and_workers_to_delete_are_no_difference() -> None:
    changed = [group(replicas=7, minReplicas=2, maxReplicas=9)]
    changed[0]["scaleStrategy"] = {"workersToDelete": ["a"]}
    spec = {"rayClusterConfig": cluster_config(groups=changed)}
    assert spec_match(a_snapshot(spec=spec), a_cluster("demo-a")) is SpecMatch.SAME


def test_an_image_is_a_difference() -> None:
    assert spec_match(a_snapshot(spec=NEWER), a_cluster("demo-a")) is SpecMatch.DIFFERENT


def test_a_group_behind_the_others_is_growth() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[group(), group("more")])}
    assert spec_match(a_snapshot(spec=spec), a_cluster("demo-a")) is SpecMatch.GROUPS_ADDED


def test_a_group_before_the_others_is_a_difference() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[group("more"), group()])}
    assert spec_match(a_snapshot(spec=spec), a_cluster("demo-a")) is SpecMatch.DIFFERENT


def test_growth_with_a_change_of_the_old_groups_is_a_difference() -> None:
    changed = group(rayStartParams={"num-cpus": "0"})
    spec = {"rayClusterConfig": cluster_config(groups=[changed, group("more")])}
    assert spec_match(a_snapshot(spec=spec), a_cluster("demo-a")) is SpecMatch.DIFFERENT


def test_a_removed_group_is_a_difference() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[])}
    assert spec_match(a_snapshot(spec=spec), a_cluster("demo-a")) is SpecMatch.DIFFERENT


@pytest.mark.parametrize("version", ["v1.7.0", ""])
def test_a_cluster_of_another_operator_is_foreign_with_any_defaults(version: str) -> None:
    config = cluster_config()
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "1000m", "memory": "1024Mi"}
    }
    cluster = a_cluster(
        "demo-a", {names.ANNOTATION_OPERATOR_VERSION: version}, rayClusterConfig=config
    )
    wanted = cluster_config()
    wanted["headGroupSpec"]["template"]["spec"]["containers"][0] |= {
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "workingDir": "/tmp",
    }
    del cluster.spec.head_group_spec.template["spec"]["containers"][0]["image"]
    assert spec_match(a_snapshot(spec={"rayClusterConfig": wanted}), cluster) is SpecMatch.FOREIGN


@pytest.mark.parametrize("version", ["v1.7.0", "", "manta-v0.0.1"])
def test_an_image_that_was_edited_under_another_operator_is_a_difference(version: str) -> None:
    """S18."""
    cluster = a_cluster("demo-a", {names.ANNOTATION_OPERATOR_VERSION: version})
    assert spec_match(a_snapshot(spec=NEWER), cluster) is SpecMatch.DIFFERENT


def test_a_cluster_of_another_version_of_ours_is_compared_by_its_own_spec() -> None:
    """S18: independent of how that version computed its hash."""
    older = {names.ANNOTATION_OPERATOR_VERSION: "manta-v0.0.1", names.ANNOTATION_SPEC_HASH: "x"}
    assert spec_match(a_snapshot(), a_cluster("demo-a", older)) is SpecMatch.SAME
    spec = {"rayClusterConfig": cluster_config(groups=[group(), group("more")])}
    assert spec_match(a_snapshot(spec=spec), a_cluster("demo-a", older)) is SpecMatch.GROUPS_ADDED


def test_an_invalid_count_of_groups_does_not_raise() -> None:
    cluster = a_cluster("demo-a", {names.ANNOTATION_WORKER_GROUP_COUNT: "many"})
    assert spec_match(a_snapshot(spec=NEWER), cluster) is SpecMatch.DIFFERENT


# ── naming and making ────────────────────────────────────────────────────────────────────


def test_a_first_cluster_is_named_before_it_is_created() -> None:
    snapshot = a_snapshot()
    assert plan_clusters(snapshot).plan.actions == ()
    assert pending_after(snapshot).startswith("demo-")


def test_a_named_cluster_is_created_in_the_next_reconcile() -> None:
    snapshot = a_snapshot({"pendingServiceStatus": {"rayClusterName": "demo-b"}})
    create = only_action(plan_clusters(snapshot))
    assert isinstance(create, Create)
    assert create.manifest["metadata"]["name"] == "demo-b"
    annotations = create.manifest["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_SPEC_HASH] == snapshot.goal_hash
    assert annotations[names.ANNOTATION_OPERATOR_VERSION] == Settings().version
    assert annotations[names.ANNOTATION_WORKER_GROUP_COUNT].split()[0] == "1"


def test_one_reconcile_always_generates_the_same_name() -> None:
    assert pending_after(a_snapshot()) == pending_after(a_snapshot())
    assert pending_after(a_snapshot()) != pending_after(a_snapshot(seed=8))


def test_a_new_spec_names_a_new_cluster() -> None:
    snapshot = serving(spec=NEWER, active=a_view("demo-a"))
    assert is_upgrade_due(snapshot)
    assert pending_after(snapshot) not in ("", "demo-a")


@pytest.mark.parametrize(
    "quiet",
    [
        {"spec": {**NEWER, "upgradeStrategy": {"type": "None"}}},
        {"spec": NEWER, "settings": Settings(zero_downtime=False)},
    ],
)
def test_the_strategy_none_names_no_cluster(quiet: dict[str, Any]) -> None:
    snapshot = serving(active=a_view("demo-a"), **quiet)
    assert not is_upgrade_due(snapshot)
    assert plan_clusters(snapshot) == Step()


def test_a_strategy_in_the_spec_counts_more_than_the_environment() -> None:
    spec = {**NEWER, "upgradeStrategy": {"type": "NewCluster"}}
    off = Settings(zero_downtime=False)
    assert is_upgrade_due(serving(spec=spec, active=a_view("demo-a"), settings=off))


def test_an_active_cluster_that_was_deleted_is_replaced() -> None:
    assert is_upgrade_due(serving(active=None))
    assert is_upgrade_due(serving(active=going(a_view("demo-a"))))


# ── changes of mind ──────────────────────────────────────────────────────────────────────


def test_a_spec_that_changes_again_replaces_the_pending_cluster_at_once() -> None:
    third = {"rayClusterConfig": cluster_config("rayproject/ray:2.62.0")}
    pending = a_view("demo-b", a_cluster("demo-b", **NEWER))
    snapshot = upgrading(spec=third, pending=pending)
    delete = only_action(plan_clusters(snapshot))
    assert isinstance(delete, Delete)
    assert (delete.resource, delete.key.name) == (RAY_CLUSTERS, "demo-b")
    assert pending_after(snapshot) not in ("", "demo-a", "demo-b")


def test_back_to_the_spec_of_the_active_cluster_drops_the_pending_one() -> None:
    pending = a_view("demo-b", a_cluster("demo-b", **NEWER))
    snapshot = upgrading(spec={"rayClusterConfig": cluster_config()}, pending=pending)
    assert isinstance(only_action(plan_clusters(snapshot)), Delete)
    assert pending_after(snapshot) == ""


def test_back_before_the_pending_cluster_was_made_needs_no_deletion() -> None:
    snapshot = upgrading(spec={"rayClusterConfig": cluster_config()}, pending=None)
    assert plan_clusters(snapshot).plan.actions == ()
    assert pending_after(snapshot) == ""


def test_a_pending_cluster_that_is_being_deleted_is_replaced() -> None:
    newer = a_view("demo-b", a_cluster("demo-b", **NEWER))
    assert pending_after(upgrading(pending=going(newer))) not in ("", "demo-b")


def test_split_traffic_is_rolled_back_in_steps() -> None:
    third = {"rayClusterConfig": scaled_config("rayproject/ray:2.62.0")}
    spec = {**third, "upgradeStrategy": incremental()}
    made_of = {"rayClusterConfig": scaled_config(NEXT)}
    snapshot = upgrading(spec=spec, pending=a_view("demo-b", a_cluster("demo-b", **made_of)))
    assert is_rolling_back(snapshot)
    assert plan_clusters(snapshot) == Step()


# ── where it stands ──────────────────────────────────────────────────────────────────────


def patched(snapshot: ServiceSnapshot) -> dict[str, Any]:
    patch = only_action(plan_clusters(snapshot))
    assert isinstance(patch, Patch)
    assert (patch.kind, patch.resource_version, patch.uid) == ("json", "7", "demo-a-uid")
    return {one["path"]: one["value"] for one in patch.patch}


def test_an_up_to_date_cluster_is_left_alone() -> None:
    assert plan_clusters(serving()) == Step()


def test_c11_bounds_are_passed_on_without_the_replicas_that_the_autoscaler_owns() -> None:
    spec = {"rayClusterConfig": scaled_config(groups=[group(replicas=4, maxReplicas=20)])}
    old = a_cluster("demo-a", rayClusterConfig=scaled_config())
    changes = patched(serving(spec=spec, active=a_view("demo-a", old)))
    assert changes == {"/spec/workerGroupSpecs/0/maxReplicas": 20}


def test_without_an_autoscaler_the_service_sets_replicas() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[group(replicas=4)])}
    changes = patched(serving(spec=spec, active=a_view("demo-a")))
    assert changes == {
        "/spec/workerGroupSpecs/0/replicas": 4,
        "/metadata/annotations/manta.ray.io~1replicas": "workers=4",
    }


def test_replicas_that_others_set_on_the_cluster_are_left_alone() -> None:
    """S11: the RayService itself did not change."""
    cluster = a_cluster("demo-a")
    spec = a_cluster("x", rayClusterConfig=cluster_config(groups=[group(replicas=7)])).spec
    scaled = msgspec.structs.replace(cluster, spec=spec)
    assert plan_clusters(serving(active=a_view("demo-a", scaled))) == Step()


@pytest.mark.parametrize("field", ["tolerations", "schedulingGates"])
def test_what_job_queues_write_into_templates_reaches_the_next_cluster_only(field: str) -> None:
    """S8: the guide says so."""
    config = cluster_config()
    for one in (config["headGroupSpec"], *config["workerGroupSpecs"]):
        one["template"]["spec"][field] = [{"name": "x", "key": "x"}]
    assert plan_clusters(serving(spec={"rayClusterConfig": config})) == Step()


def test_appended_groups_are_added_and_the_new_hash_recorded() -> None:
    extra = group("more", 2, unknownField=1)
    spec = {"rayClusterConfig": cluster_config(groups=[group(), extra])}
    snapshot = serving(spec=spec, active=a_view("demo-a"))
    changes = patched(snapshot)
    assert changes["/spec/workerGroupSpecs/-"] == extra
    annotation = f"/metadata/annotations/{names.ANNOTATION_SPEC_HASH.replace('/', '~1')}"
    assert changes[annotation] == snapshot.goal_hash


def test_a_first_group_makes_the_list() -> None:
    without = a_cluster("demo-a", rayClusterConfig=cluster_config(groups=[]))
    changes = patched(serving(active=a_view("demo-a", without)))
    assert [one["groupName"] for one in changes["/spec/workerGroupSpecs"]] == ["workers"]


def test_adoption_of_an_equal_cluster_changes_only_annotations() -> None:
    foreign = {names.ANNOTATION_OPERATOR_VERSION: "v1.7.0", names.ANNOTATION_SPEC_HASH: "OTHER"}
    changes = patched(serving(active=a_view("demo-a", a_cluster("demo-a", foreign))))
    assert {path.rsplit("~1")[-1] for path in changes} == {
        "hash-without-replicas-and-workers-to-delete",
        "kuberay-version",
    }


def test_adoption_of_a_cluster_without_annotations_records_whose_it_is() -> None:
    cluster = a_cluster("demo-a")
    meta = msgspec.structs.replace(cluster.metadata, annotations={})
    bare = msgspec.structs.replace(cluster, metadata=meta)
    snapshot = serving(active=a_view("demo-a", bare))
    changes = patched(snapshot)
    assert list(changes) == ["/metadata/annotations"]
    recorded = changes["/metadata/annotations"]
    assert recorded[names.ANNOTATION_SPEC_HASH] == snapshot.goal_hash
    assert recorded[names.ANNOTATION_OPERATOR_VERSION] == Settings().version


def test_adoption_of_another_spec_applies_it_in_place_and_keeps_the_autoscalers_numbers() -> None:
    foreign = {names.ANNOTATION_OPERATOR_VERSION: "v1.7.0"}
    live = scaled_config(groups=[group(replicas=5)], suspend=False)
    old = a_cluster("demo-a", foreign, rayClusterConfig=live)
    config = scaled_config()
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["workingDir"] = "/srv"
    spec = {"rayClusterConfig": config}
    changes = patched(serving(spec=spec, active=a_view("demo-a", old)))
    adopted = changes["/spec"]
    head = adopted["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert (head["workingDir"], adopted["suspend"]) == ("/srv", False)
    assert adopted["workerGroupSpecs"][0]["replicas"] == 5


def test_an_active_cluster_is_never_changed_in_mid_upgrade() -> None:
    bounds = {"rayClusterConfig": cluster_config(NEXT, groups=[group(maxReplicas=20)])}
    pending = a_view("demo-b", a_cluster("demo-b", **bounds))
    assert plan_clusters(upgrading(spec=bounds, pending=pending)) == Step()


def test_the_pending_cluster_of_a_canary_starts_with_the_workers_of_its_first_step() -> None:
    def workers(snapshot: ServiceSnapshot) -> int:
        create = only_action(plan_clusters(snapshot))
        return int(create.manifest["spec"]["workerGroupSpecs"][0]["replicas"])

    strategy = {"upgradeStrategy": canary(25, 50)}
    spec = {"rayClusterConfig": gpu_config(NEXT), **strategy}
    old = a_view("demo-a", a_cluster("demo-a", rayClusterConfig=gpu_config()))
    assert workers(upgrading(spec=spec, active=old, pending=None)) == 1
    # There is nothing yet that a first cluster could share its requests with.
    first = a_snapshot({"pendingServiceStatus": {"rayClusterName": "demo-a"}}, spec=spec)
    assert workers(first) == 4


def test_the_pending_cluster_of_a_split_starts_small() -> None:
    spec = {"rayClusterConfig": scaled_config(NEXT), "upgradeStrategy": incremental()}
    create = only_action(plan_clusters(upgrading(spec=spec, pending=None)))
    assert "replicas" not in create.manifest["spec"]["workerGroupSpecs"][0]
    first = a_snapshot({"pendingServiceStatus": {"rayClusterName": "demo-a"}}, spec=spec)
    create = only_action(plan_clusters(first))
    assert create.manifest["spec"]["workerGroupSpecs"][0]["replicas"] == 1
