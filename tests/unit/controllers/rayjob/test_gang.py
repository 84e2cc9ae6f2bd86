"""Gang scheduling of a RayJob: the PodGroup before the cluster, of its size, and empty at the end."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from manta.api.meta import ObjectMeta, Uid
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob
from manta.api.scheduling import PodGroup, PodGroupSpec
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import JobSnapshot, SessionReply
from manta.reconcile.actions import Create, Patch
from manta.rules.settings import Settings
from manta.rules.validation.job import validate_job
from support.raycluster import ray_cluster
from support.rayjob import a_cluster, a_head, a_job, a_snapshot, planned

VOLCANO = Settings(batch_scheduler="volcano")
INITIALIZING = {
    "jobDeploymentStatus": "Initializing",
    "jobId": "demo-12345",
    "rayClusterName": "demo-abcde",
}
ENDED = {**INITIALIZING, "jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


def before_cluster(
    settings: Settings, labels: dict[str, str] | None = None, **spec: Any
) -> JobSnapshot:
    facts = a_snapshot(
        INITIALIZING,
        spec=spec,
        settings=settings,
        cluster_spec=ray_cluster()["spec"],
        runtime_env={},
    )
    meta = msgspec.structs.replace(facts.job.metadata, labels=labels or {})
    job = RayJob(metadata=meta, spec=facts.job.spec, status=facts.job.status)
    return JobSnapshot(**{**vars(facts), "job": job})


def group(members: int, **amounts: str | float) -> PodGroup:
    meta = ObjectMeta(name="ray-demo-pg", namespace="default", uid=Uid("g"))
    return PodGroup(metadata=meta, spec=PodGroupSpec(min_member=members, min_resources=amounts))


def created(facts: JobSnapshot, cause: Cause) -> dict[str, Any]:
    [action] = [one for one in planned(facts).actions if one.cause is cause]
    assert isinstance(action, Create)
    return dict(action.manifest)


def test_the_pod_group_is_created_before_the_cluster() -> None:
    stages = [
        [one.cause for one in stage.actions] for stage in planned(before_cluster(VOLCANO)).stages
    ]
    assert stages == [[Cause.POD_GROUP], [Cause.NEW_ATTEMPT]]


@pytest.mark.parametrize(
    ("mode", "cpu"), [("K8sJobMode", "2500m"), ("SidecarMode", "2500m"), ("HTTPMode", "2")]
)
def test_the_pod_group_counts_the_submitter(mode: str, cpu: str) -> None:
    made = created(before_cluster(VOLCANO, submissionMode=mode), Cause.POD_GROUP)
    assert made["spec"]["minMember"] == 2
    assert made["spec"]["minResources"]["cpu"] == cpu


@pytest.mark.parametrize("mode", ["K8sJobMode", "SidecarMode", "HTTPMode"])
def test_the_pod_group_keeps_its_size_when_the_cluster_is_there(mode: str) -> None:
    """A submitter beside the head is in the head's Pod by then, and counts once."""
    before = before_cluster(VOLCANO, submissionMode=mode)
    [make_group, make_cluster] = planned(before).actions
    assert isinstance(make_group, Create)
    assert isinstance(make_cluster, Create)
    facts = {
        "cluster": msgspec.convert(make_cluster.manifest, RayCluster),
        "pod_group": msgspec.convert(make_group.manifest, PodGroup),
    }
    after = JobSnapshot(**{**vars(before), **facts})
    assert all(one.cause is not Cause.POD_GROUP_DRIFT for one in planned(after).actions)


def test_the_submitter_is_in_the_gang() -> None:
    facts = a_snapshot(
        INITIALIZING,
        settings=VOLCANO,
        cluster=a_cluster(),
        head_pod=a_head(),
        runtime_env={},
        pod_group=group(2, cpu="2500m", memory="2248Mi"),
        answer=SessionReply("session_1"),
    )
    template = created(facts, Cause.SUBMIT_BY_JOB)["spec"]["template"]
    assert template["spec"]["schedulerName"] == "volcano"
    assert template["metadata"]["annotations"] == {
        names.ANNOTATION_POD_GROUP_NAME: "ray-demo-pg",
        names.ANNOTATION_VOLCANO_TASK: "submittergroup",
    }


@pytest.mark.parametrize(
    ("alive", "members", "cpu"),
    [(True, 2, {"cpu": "2", "memory": "2Gi"}), (False, 0, {"cpu": None})],
)
def test_c68_at_the_end_only_what_lives_on_keeps_its_room(
    alive: bool, members: int, cpu: dict[str, str | None]
) -> None:
    facts = a_snapshot(
        ENDED,
        settings=VOLCANO,
        cluster=a_cluster() if alive else None,
        pod_group=group(9, cpu="500m"),
    )
    [patch] = [one for one in planned(facts).actions if one.cause is Cause.POD_GROUP_CLEANUP]
    assert isinstance(patch, Patch)
    assert patch.patch["spec"] == {"minMember": members, "minResources": cpu}
    # S15: with KubeRay's Events.
    reasons = patch.cause.event
    assert (reasons.done, reasons.failed) == (
        "BatchSchedulerCleanedUp",
        "FailedToCleanupBatchScheduler",
    )


def test_a_borrowed_cluster_has_no_new_gang() -> None:
    facts = a_snapshot(
        INITIALIZING,
        spec={"clusterSelector": {"ray.io/cluster": "demo-abcde"}, "rayClusterSpec": None},
        settings=VOLCANO,
        cluster=a_cluster(),
        head_pod=a_head(),
        runtime_env={},
        answer=SessionReply("session_1"),
    )
    template = created(facts, Cause.SUBMIT_BY_JOB)["spec"]["template"]
    assert "schedulerName" not in template["spec"]
    assert all(one.cause is not Cause.POD_GROUP for one in planned(facts).actions)


def test_with_yunikorn_cluster_and_submitter_have_one_task_group_plan() -> None:
    labels = {names.LABEL_GANG_SCHEDULING: "true", names.LABEL_YUNIKORN_QUEUE: "root.ray"}
    facts = before_cluster(Settings(batch_scheduler="yunikorn"), labels)
    meta = created(facts, Cause.NEW_ATTEMPT)["metadata"]
    groups = json.loads(meta["annotations"][names.ANNOTATION_YUNIKORN_TASK_GROUPS])
    assert [one["name"] for one in groups][-1] == "submittergroup"
    assert meta["labels"]["queue"] == "root.ray"


def test_kai_refuses_a_submitter_that_starts_late() -> None:
    settings = Settings(batch_scheduler="kai-scheduler")
    [violation] = validate_job(a_job(), settings)
    assert "spec.submissionMode" in str(violation)
    assert validate_job(a_job(submissionMode="HTTPMode"), settings) == []
