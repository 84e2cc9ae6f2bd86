"""The submitter of a RayJob: a Kubernetes Job, or a sidecar of the head.

The command checks whether the job exists before it submits, so that a restarted submitter follows the existing
job instead of running it twice (C57). Before it submits, it checks that the head is still the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob, SubmissionMode
from manta.api.ray.resources import RAY_JOBS
from manta.api.well_known import LABEL_APP_CREATED_BY
from manta.manifests.auth import add_auth
from manta.manifests.containers import Json, add_env, copy_json, env_value
from manta.manifests.session_guard import build_session_guard
from manta.rules.traits import ray_container_of

SUBMITTER_CONTAINER = "ray-job-submitter"
DEFAULT_BACKOFF_LIMIT = 2


@dataclass(frozen=True, slots=True)
class Submission:
    """What is submitted, where and under which id."""

    job_id: str
    address: str
    """`host:port` of the dashboard, without a scheme, as KubeRay's environment variable has it."""
    runtime_env: Mapping[str, Any]
    login_shell: bool = False
    restarts: bool = False
    """Restart a sidecar submitter that fails (gate SidecarSubmitterRestart)."""
    session: str = ""
    """The Ray session to submit to; empty: any."""


def build_submit_command(job: RayJob, submission: Submission) -> str:
    """Shell code that waits for Ray, submits once and follows the logs."""
    sidecar = job.spec.submission_mode == SubmissionMode.SIDECAR
    address = _quoted_if_odd(_http(submission.address))
    wait = _wait_loop(address)
    options = " ".join(_options(job, submission))
    entrypoint = job.spec.entrypoint.strip()
    if sidecar and not submission.restarts:
        return f"{wait} ray job submit --address {address} {options} -- {entrypoint} ;"
    known = f"ray job status --address {address} {submission.job_id} >/dev/null 2>&1"
    submit = f"ray job submit --address {address} --no-wait {options} -- {entrypoint}"
    if submission.session:
        guard = build_session_guard(address, submission.job_id, submission.session)
        submit = f"{guard} {submit}"
    follow = f"ray job logs --address {address} --follow {submission.job_id}"
    return f"{wait} if ! {known} ; then {submit} ; fi ; {follow}"


def _wait_loop(address: str) -> str:
    url = f"{address}/api/gcs_healthz"
    ask = (
        f"import urllib.request; r=urllib.request.urlopen('{url}', timeout=10); "
        "exit(0 if b'success' in r.read() else 1)"
    )
    message = f"Waiting for Ray Dashboard GCS to become healthy at {address} ..."
    return f'until python -c "{ask}" >/dev/null 2>&1 ; do echo "{message}" ; sleep 2 ; done ;'


def _options(job: RayJob, submission: Submission) -> list[str]:
    spec = job.spec
    options = []
    if submission.runtime_env:
        options.append(f"--runtime-env-json {_shell(_json(submission.runtime_env))}")
    if spec.metadata:
        options.append(f"--metadata-json {_shell(_json(spec.metadata))}")
    options.append(f"--submission-id {submission.job_id}")
    if spec.entrypoint_num_cpus > 0:
        options.append(f"--entrypoint-num-cpus {spec.entrypoint_num_cpus:f}")
    if spec.entrypoint_num_gpus > 0:
        options.append(f"--entrypoint-num-gpus {spec.entrypoint_num_gpus:f}")
    if spec.entrypoint_resources:
        options.append(f"--entrypoint-resources {_shell(spec.entrypoint_resources)}")
    return options


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _shell(text: str) -> str:
    """Double-quoted, as KubeRay does: `$NAME` is expanded with the submitter's environment, as in the
    entrypoint."""
    escaped = "".join(f"\\{letter}" if letter in '\\"' else letter for letter in text)
    return f'"{escaped}"'


def _quoted_if_odd(address: str) -> str:
    return f'"{address}"' if any(letter in address for letter in " []") else address


def _http(address: str) -> str:
    return address if "://" in address else f"http://{address}"


# ── the Job ──────────────────────────────────────────────────────────────────────────────


def build_submitter_job(job: RayJob, cluster: RayCluster, submission: Submission) -> Json:
    """The Kubernetes Job of K8sJobMode, with the name of its RayJob."""
    labels = submitter_labels(job)
    template = _template(job, cluster, labels)
    container = template["spec"]["containers"][0]
    _complete(job, cluster, template["spec"], container, submission)
    config = job.spec.submitter_config
    limit = DEFAULT_BACKOFF_LIMIT
    if config is not None and config.backoff_limit is not None:
        limit = config.backoff_limit
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "labels": labels,
            "ownerReferences": [job_reference(job)],
        },
        "spec": {"backoffLimit": limit, "template": template},
    }


def submitter_template(job: RayJob, cluster: RayCluster) -> Json | None:
    """The Pod template of the submitter; None: the operator or the user submits."""
    mode = job.spec.submission_mode or SubmissionMode.K8S_JOB
    if mode == SubmissionMode.K8S_JOB:
        return _template(job, cluster, submitter_labels(job))
    if mode == SubmissionMode.SIDECAR:
        return {"spec": {"containers": [_default_container(cluster)]}}
    return None


def submitter_labels(job: RayJob) -> dict[str, str]:
    return {
        names.LABEL_ORIGIN_NAME: job.metadata.name,
        names.LABEL_ORIGIN_KIND: RAY_JOBS.kind,
        LABEL_APP_CREATED_BY: names.OPERATOR_NAME,
    }


def job_reference(job: RayJob) -> Json:
    """The owner reference to a RayJob (C74)."""
    return RAY_JOBS.controller_reference(job.metadata)


def _template(job: RayJob, cluster: RayCluster, labels: Mapping[str, str]) -> Json:
    custom = job.spec.submitter_pod_template
    if custom is None:
        spec = {"containers": [_default_container(cluster)], "restartPolicy": "Never"}
        return {"metadata": {"labels": dict(labels)}, "spec": spec}
    template: Json = copy_json(custom)
    meta = template.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    template["spec"].setdefault("restartPolicy", "Never")
    return template


def _default_container(cluster: RayCluster) -> Json:
    ray = ray_container_of(cluster.spec.head_group_spec.template)
    return {
        "name": SUBMITTER_CONTAINER,
        "image": ray.get("image", ""),
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "200Mi"},
        },
    }


def build_sidecar(job: RayJob, cluster: RayCluster, submission: Submission) -> Json:
    """The submitter container that SidecarMode adds to the head Pod."""
    container = _default_container(cluster)
    _complete(job, cluster, {}, container, submission)
    if submission.restarts:
        container["restartPolicy"] = "OnFailure"
    return container


def _complete(
    job: RayJob, cluster: RayCluster, pod_spec: Json, container: Json, submission: Submission
) -> None:
    """Set command and environment. A command of the user's own is kept."""
    if not container.get("command"):
        container["command"] = ["/bin/bash", "-cel" if submission.login_shell else "-ce", "--"]
        container["args"] = [build_submit_command(job, submission)]
    sidecar = job.spec.submission_mode == SubmissionMode.SIDECAR
    add_env(
        container,
        [
            env_value(names.ENV_PYTHON_UNBUFFERED, "1"),
            env_value(names.ENV_DASHBOARD_ADDRESS, "" if sidecar else submission.address),
            env_value(names.ENV_JOB_SUBMISSION_ID, submission.job_id),
        ],
    )
    if submission.session:
        add_env(container, [env_value(names.ENV_SESSION, submission.session)])
    add_auth(cluster, pod_spec, container)
