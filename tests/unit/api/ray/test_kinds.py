"""The four Ray kinds: decoding keeps what it must, and a status is written as Go writes it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.codec import to_json
from manta.api.meta import Condition
from manta.api.ray.cluster import (
    ClusterState,
    HeadInfo,
    RayCluster,
    RayClusterSpec,
    RayClusterStatus,
)
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import RayJob, RayJobSpec, RayJobStatus
from manta.api.ray.service import RayService, RayServiceStatus, RayServiceStatuses

KINDS = (RayCluster, RayJob, RayService, RayCronJob)


def a_cluster_spec() -> dict[str, Any]:
    return {
        "rayVersion": "2.52.0",
        "aFieldOfTomorrow": {"deep": [1, 2]},
        "headGroupSpec": {
            "rayStartParams": {"dashboard-host": "0.0.0.0"},
            "template": {"spec": {"containers": [{"name": "ray-head", "newField": 1}]}},
        },
        "workerGroupSpecs": [
            {
                "groupName": "small",
                "replicas": 1,
                "minReplicas": 0,
                "maxReplicas": 5,
                "scaleStrategy": {"workersToDelete": ["pod-a"]},
                "template": {"spec": {"containers": [{"name": "ray-worker"}]}},
            }
        ],
        "authOptions": {"mode": "token", "enableK8sTokenAuth": True},
        "gcsFaultToleranceOptions": {"backend": "rocksdb", "storage": {"size": 1}},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_without_anything_decodes(kind: type[msgspec.Struct]) -> None:
    assert msgspec.json.decode(b"{}", type=kind) == kind()


def test_a_cluster_spec_is_read_and_its_templates_stay_raw() -> None:
    spec = msgspec.convert(a_cluster_spec(), RayClusterSpec)
    assert spec.head_group_spec.template == a_cluster_spec()["headGroupSpec"]["template"]
    [group] = spec.worker_group_specs
    assert group.group_name == "small"
    assert (group.min_replicas, group.max_replicas, group.num_of_hosts) == (0, 5, 1)
    assert group.scale_strategy.workers_to_delete == ("pod-a",)
    assert spec.auth_options is not None
    assert spec.auth_options.enable_k8s_token_auth is True
    assert spec.gcs_fault_tolerance_options is not None
    assert spec.gcs_fault_tolerance_options.storage is not None
    assert spec.gcs_fault_tolerance_options.storage.size == 1


def test_absent_and_false_are_distinguished_where_it_matters() -> None:
    assert msgspec.convert({}, RayClusterSpec).suspend is None
    assert msgspec.convert({"suspend": False}, RayClusterSpec).suspend is False


def test_a_word_that_we_do_not_know_does_not_stop_decoding() -> None:
    job = msgspec.convert({"spec": {"submissionMode": "NewMode"}}, RayJob)
    assert job.spec.submission_mode == "NewMode"


def test_a_job_inside_a_cron_job_is_a_job_spec() -> None:
    document = {
        "spec": {
            "schedule": "* * * * *",
            "timeZone": "Europe/Berlin",
            "jobTemplate": {
                "entrypoint": "python x.py",
                "runtimeEnvYAML": "pip: []",
                "entrypointNumCpus": 1,
                "rayClusterSpec": a_cluster_spec(),
            },
        }
    }
    cron = msgspec.json.decode(msgspec.json.encode(document), type=RayCronJob)
    job = msgspec.json.decode(cron.spec.job_template, type=RayJobSpec)
    assert job.runtime_env_yaml == "pip: []"
    assert job.entrypoint_num_cpus == 1.0
    assert job.ray_cluster_spec is not None
    assert cron.spec.successful_jobs_history_limit is None


def test_a_status_is_written_without_what_is_empty() -> None:
    status = RayClusterStatus(
        state=ClusterState.READY,
        desired_cpu="3",
        head=HeadInfo(pod_ip="10.0.0.1", service_ip="10.0.0.1"),
        conditions=(Condition(type="HeadPodReady", status="True", reason="Because"),),
        max_worker_replicas=300,
    )
    assert to_json(status) == {
        "state": "ready",
        "desiredCPU": "3",
        "head": {"podIP": "10.0.0.1", "serviceIP": "10.0.0.1"},
        "conditions": [
            {
                "type": "HeadPodReady",
                "status": "True",
                "reason": "Because",
                "message": "",
                "lastTransitionTime": "",
            }
        ],
        "maxWorkerReplicas": 300,
    }


@pytest.mark.parametrize(
    "status",
    [
        RayClusterStatus(state="ready", endpoints={"client": "10001"}, desired_gpu="1"),
        RayJobStatus(job_id="x", dashboard_url="http://x", failed=0, succeeded=1),
        RayServiceStatuses(
            active_service_status=RayServiceStatus(target_capacity=0, ray_cluster_name="a")
        ),
    ],
)
def test_a_status_survives_being_written_and_read(status: msgspec.Struct) -> None:
    assert msgspec.convert(to_json(status), type(status)) == status


def test_a_percentage_of_zero_is_written_and_an_unknown_one_is_not() -> None:
    assert to_json(RayServiceStatus(target_capacity=0)) == {"targetCapacity": 0}
    assert to_json(RayServiceStatus()) == {}
