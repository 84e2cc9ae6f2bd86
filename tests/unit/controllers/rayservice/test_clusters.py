"""Which clusters there should be, for every way in which a spec and a cluster can differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.controllers.rayservice.planners.clusters import (
    Fit,
    fit,
    is_rolling_back,
    is_upgrade_due,
    plan_clusters,
)
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot
from manta.controllers.rayservice.step import Step
from manta.reconcile.actions import Create, Delete, Patch
from manta.rules.settings import Settings
from support.raycluster import group
from support.rayservice_objects import (
    a_cluster,
    a_sight,
    cluster_config,
    incremental,
    scaled_config,
    seen,
    serving,
    upgrading,
)

NEXT = "rayproject/ray:2.61.0"
NEWER = {"rayClusterConfig": cluster_config(NEXT)}


def pending_after(snapshot: ServiceSnapshot) -> str:
    step = plan_clusters(snapshot)
    return step.change(snapshot.status).pending_service_status.ray_cluster_name


def only_action(step: Step) -> Any:
    (action,) = step.plan.actions
    return action


def going(sight: ClusterSight) -> ClusterSight:
    meta = msgspec.structs.replace(
        sight.cluster.metadata, deletion_timestamp="2026-01-01T00:00:00Z"
    )
    return replace(sight, cluster=msgspec.structs.replace(sight.cluster, metadata=meta))


# ── comparing ────────────────────────────────────────────────────────────────────────────


def test_the_same_spec_is_the_same() -> None:
    assert fit(seen(), a_cluster("demo-a")) is Fit.SAME


def test_replicas_bounds_and_victims_are_no_difference() -> None:
    changed = [group(replicas=7, minReplicas=2, maxReplicas=9)]
    changed[0]["scaleStrategy"] = {"workersToDelete": ["a"]}
    spec = {"rayClusterConfig": cluster_config(groups=changed)}
    assert fit(seen(spec=spec), a_cluster("demo-a")) is Fit.SAME


def test_an_image_is_a_difference() -> None:
    assert fit(seen(spec=NEWER), a_cluster("demo-a")) is Fit.DIFFERENT


def test_a_group_behind_the_others_is_growth() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[group(), group("more")])}
    assert fit(seen(spec=spec), a_cluster("demo-a")) is Fit.GROWN


def test_a_group_before_the_others_is_a_difference() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[group("more"), group()])}
    assert fit(seen(spec=spec), a_cluster("demo-a")) is Fit.DIFFERENT


def test_growth_with_a_change_of_the_old_groups_is_a_difference() -> None:
    changed = group(rayStartParams={"num-cpus": "0"})
    spec = {"rayClusterConfig": cluster_config(groups=[changed, group("more")])}
    assert fit(seen(spec=spec), a_cluster("demo-a")) is Fit.DIFFERENT


def test_a_removed_group_is_a_difference() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[])}
    assert fit(seen(spec=spec), a_cluster("demo-a")) is Fit.DIFFERENT


@pytest.mark.parametrize("version", ["v1.7.0", ""])
def test_a_cluster_of_another_operator_is_foreign_whatever_it_filled_in(version: str) -> None:
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
    assert fit(seen(spec={"rayClusterConfig": wanted}), cluster) is Fit.FOREIGN


@pytest.mark.parametrize("version", ["v1.7.0", "", "manta-v0.0.1"])
def test_an_image_that_was_edited_under_another_operator_is_a_difference(version: str) -> None:
    """S18."""
    cluster = a_cluster("demo-a", {names.ANNOTATION_OPERATOR_VERSION: version})
    assert fit(seen(spec=NEWER), cluster) is Fit.DIFFERENT


def test_a_cluster_of_another_version_of_ours_is_compared_by_its_own_spec() -> None:
    """S18: whatever that version made its hash of."""
    older = {names.ANNOTATION_OPERATOR_VERSION: "manta-v0.0.1", names.ANNOTATION_SPEC_HASH: "x"}
    assert fit(seen(), a_cluster("demo-a", older)) is Fit.SAME
    spec = {"rayClusterConfig": cluster_config(groups=[group(), group("more")])}
    assert fit(seen(spec=spec), a_cluster("demo-a", older)) is Fit.GROWN


def test_nonsense_in_the_count_of_groups_is_no_crash() -> None:
    cluster = a_cluster("demo-a", {names.ANNOTATION_WORKER_GROUP_COUNT: "many"})
    assert fit(seen(spec=NEWER), cluster) is Fit.DIFFERENT


# ── naming and making ────────────────────────────────────────────────────────────────────


def test_a_first_cluster_is_named_before_it_is_made() -> None:
    snapshot = seen()
    assert plan_clusters(snapshot).plan.actions == ()
    assert pending_after(snapshot).startswith("demo-")


def test_a_name_in_status_is_made_a_round_later() -> None:
    snapshot = seen({"pendingServiceStatus": {"rayClusterName": "demo-b"}})
    create = only_action(plan_clusters(snapshot))
    assert isinstance(create, Create)
    assert create.manifest["metadata"]["name"] == "demo-b"
    annotations = create.manifest["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_SPEC_HASH] == snapshot.goal_hash
    assert annotations[names.ANNOTATION_OPERATOR_VERSION] == Settings().version
    assert annotations[names.ANNOTATION_WORKER_GROUP_COUNT].split()[0] == "1"


def test_the_same_round_asks_for_the_same_name() -> None:
    assert pending_after(seen()) == pending_after(seen())
    assert pending_after(seen()) != pending_after(seen(seed=8))


def test_a_new_spec_names_a_new_cluster() -> None:
    snapshot = serving(spec=NEWER, active=a_sight("demo-a"))
    assert is_upgrade_due(snapshot)
    assert pending_after(snapshot) not in ("", "demo-a")


@pytest.mark.parametrize(
    "quiet",
    [
        {"spec": {**NEWER, "upgradeStrategy": {"type": "None"}}},
        {"spec": NEWER, "settings": Settings(zero_downtime=False)},
    ],
)
def test_a_strategy_of_none_names_nothing(quiet: dict[str, Any]) -> None:
    snapshot = serving(active=a_sight("demo-a"), **quiet)
    assert not is_upgrade_due(snapshot)
    assert plan_clusters(snapshot) == Step()


def test_a_strategy_in_the_spec_counts_more_than_the_environment() -> None:
    spec = {**NEWER, "upgradeStrategy": {"type": "NewCluster"}}
    off = Settings(zero_downtime=False)
    assert is_upgrade_due(serving(spec=spec, active=a_sight("demo-a"), settings=off))


def test_an_active_cluster_that_was_deleted_is_replaced() -> None:
    assert is_upgrade_due(serving(active=None))
    assert is_upgrade_due(serving(active=going(a_sight("demo-a"))))


# ── changes of mind ──────────────────────────────────────────────────────────────────────


def test_a_spec_that_changes_again_replaces_the_pending_cluster_at_once() -> None:
    third = {"rayClusterConfig": cluster_config("rayproject/ray:2.62.0")}
    pending = a_sight("demo-b", a_cluster("demo-b", **NEWER))
    snapshot = upgrading(spec=third, pending=pending)
    delete = only_action(plan_clusters(snapshot))
    assert isinstance(delete, Delete)
    assert (delete.resource, delete.key.name) == (RAY_CLUSTERS, "demo-b")
    assert pending_after(snapshot) not in ("", "demo-a", "demo-b")


def test_back_to_the_spec_of_the_active_cluster_drops_the_pending_one() -> None:
    pending = a_sight("demo-b", a_cluster("demo-b", **NEWER))
    snapshot = upgrading(spec={"rayClusterConfig": cluster_config()}, pending=pending)
    assert isinstance(only_action(plan_clusters(snapshot)), Delete)
    assert pending_after(snapshot) == ""


def test_back_before_the_pending_cluster_was_made_needs_no_deletion() -> None:
    snapshot = upgrading(spec={"rayClusterConfig": cluster_config()}, pending=None)
    assert plan_clusters(snapshot).plan.actions == ()
    assert pending_after(snapshot) == ""


def test_a_pending_cluster_on_its_way_out_gets_a_successor() -> None:
    newer = a_sight("demo-b", a_cluster("demo-b", **NEWER))
    assert pending_after(upgrading(pending=going(newer))) not in ("", "demo-b")


def test_traffic_that_was_split_is_walked_back_and_not_cut_off() -> None:
    third = {"rayClusterConfig": scaled_config("rayproject/ray:2.62.0")}
    spec = {**third, "upgradeStrategy": incremental()}
    made_of = {"rayClusterConfig": scaled_config(NEXT)}
    snapshot = upgrading(spec=spec, pending=a_sight("demo-b", a_cluster("demo-b", **made_of)))
    assert is_rolling_back(snapshot)
    assert plan_clusters(snapshot) == Step()


# ── where it stands ──────────────────────────────────────────────────────────────────────


def patched(snapshot: ServiceSnapshot) -> dict[str, Any]:
    patch = only_action(plan_clusters(snapshot))
    assert isinstance(patch, Patch)
    assert (patch.kind, patch.resource_version, patch.uid) == ("json", "7", "demo-a-uid")
    return {one["path"]: one["value"] for one in patch.patch}


def test_a_cluster_that_is_what_it_should_be_is_left_alone() -> None:
    assert plan_clusters(serving()) == Step()


def test_c11_bounds_are_passed_on_without_the_replicas_that_the_autoscaler_owns() -> None:
    spec = {"rayClusterConfig": scaled_config(groups=[group(replicas=4, maxReplicas=20)])}
    old = a_cluster("demo-a", rayClusterConfig=scaled_config())
    changes = patched(serving(spec=spec, active=a_sight("demo-a", old)))
    assert changes == {"/spec/workerGroupSpecs/0/maxReplicas": 20}


def test_without_an_autoscaler_replicas_are_the_services_to_say() -> None:
    spec = {"rayClusterConfig": cluster_config(groups=[group(replicas=4)])}
    changes = patched(serving(spec=spec, active=a_sight("demo-a")))
    assert changes == {
        "/spec/workerGroupSpecs/0/replicas": 4,
        "/metadata/annotations/manta.ray.io~1replicas": "workers=4",
    }


def test_replicas_that_others_set_on_the_cluster_are_left_alone() -> None:
    """S11: the RayService asks for what it asked for before."""
    cluster = a_cluster("demo-a")
    spec = a_cluster("x", rayClusterConfig=cluster_config(groups=[group(replicas=7)])).spec
    scaled = msgspec.structs.replace(cluster, spec=spec)
    assert plan_clusters(serving(active=a_sight("demo-a", scaled))) == Step()


def test_appended_groups_come_whole_and_the_cluster_is_known_by_the_new_spec() -> None:
    extra = group("more", 2, unknownField=1)
    spec = {"rayClusterConfig": cluster_config(groups=[group(), extra])}
    snapshot = serving(spec=spec, active=a_sight("demo-a"))
    changes = patched(snapshot)
    assert changes["/spec/workerGroupSpecs/-"] == extra
    annotation = f"/metadata/annotations/{names.ANNOTATION_SPEC_HASH.replace('/', '~1')}"
    assert changes[annotation] == snapshot.goal_hash


def test_a_first_group_makes_the_list() -> None:
    without = a_cluster("demo-a", rayClusterConfig=cluster_config(groups=[]))
    changes = patched(serving(active=a_sight("demo-a", without)))
    assert [one["groupName"] for one in changes["/spec/workerGroupSpecs"]] == ["workers"]


def test_adoption_of_an_equal_cluster_changes_only_what_it_is_known_by() -> None:
    foreign = {names.ANNOTATION_OPERATOR_VERSION: "v1.7.0", names.ANNOTATION_SPEC_HASH: "OTHER"}
    changes = patched(serving(active=a_sight("demo-a", a_cluster("demo-a", foreign))))
    assert {path.rsplit("~1")[-1] for path in changes} == {
        "hash-without-replicas-and-workers-to-delete",
        "kuberay-version",
    }


def test_adoption_of_another_spec_applies_it_in_place_and_keeps_the_autoscalers_numbers() -> None:
    foreign = {names.ANNOTATION_OPERATOR_VERSION: "v1.7.0"}
    live = scaled_config(groups=[group(replicas=5)], suspend=False)
    old = a_cluster("demo-a", foreign, rayClusterConfig=live)
    config = scaled_config()
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["workingDir"] = "/srv"
    spec = {"rayClusterConfig": config}
    changes = patched(serving(spec=spec, active=a_sight("demo-a", old)))
    adopted = changes["/spec"]
    head = adopted["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert (head["workingDir"], adopted["suspend"]) == ("/srv", False)
    assert adopted["workerGroupSpecs"][0]["replicas"] == 5


def test_an_active_cluster_is_never_changed_in_mid_upgrade() -> None:
    bounds = {"rayClusterConfig": cluster_config(NEXT, groups=[group(maxReplicas=20)])}
    pending = a_sight("demo-b", a_cluster("demo-b", **bounds))
    assert plan_clusters(upgrading(spec=bounds, pending=pending)) == Step()


def test_the_pending_cluster_of_a_split_starts_small() -> None:
    spec = {"rayClusterConfig": scaled_config(NEXT), "upgradeStrategy": incremental()}
    create = only_action(plan_clusters(upgrading(spec=spec, pending=None)))
    assert "replicas" not in create.manifest["spec"]["workerGroupSpecs"][0]
    first = seen({"pendingServiceStatus": {"rayClusterName": "demo-a"}}, spec=spec)
    create = only_action(plan_clusters(first))
    assert create.manifest["spec"]["workerGroupSpecs"][0]["replicas"] == 1
