"""The RayCluster of one attempt of a RayJob, and the Service of its head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob, SubmissionMode
from manta.api.ray.naming import check_label
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.manifests.containers import Json, copy_json
from manta.manifests.propagated_metadata import propagated_metadata
from manta.manifests.services import build_second_head_service, custom_head_annotations
from manta.manifests.submitter import Submission, build_sidecar, job_reference
from manta.rules.settings import Settings

ABOUT_THE_JOB: Final = frozenset((ANNOTATION_LAST_APPLIED, names.ANNOTATION_SUBMITTED_TO))
"""Annotations of a RayJob that are not copied to its cluster."""


def build_job_cluster(
    job: RayJob, cluster_spec: Mapping[str, Any], submission: Submission, cluster: RayCluster
) -> Json:
    """`cluster_spec` is what the user wrote, copied unchanged; `cluster` is a view of it."""
    spec = copy_json(cluster_spec)
    annotations = {
        name: value for name, value in job.metadata.annotations.items() if name not in ABOUT_THE_JOB
    }
    if job.spec.submission_mode == SubmissionMode.SIDECAR:
        # A second head would run the job again.
        annotations[names.ANNOTATION_DISABLE_HEAD_RESTART] = "true"
        pod = spec["headGroupSpec"]["template"]["spec"]
        pod["restartPolicy"] = "Never"
        pod["containers"] = [*map(_started_once, pod["containers"])]
        pod["containers"].append(build_sidecar(job, cluster, submission))
    labels = {
        **job.metadata.labels,
        names.LABEL_ORIGIN_NAME: job.metadata.name,
        names.LABEL_ORIGIN_KIND: RAY_JOBS.kind,
        names.LABEL_JOB_SUBMISSION_MODE: job.spec.submission_mode or SubmissionMode.K8S_JOB,
    }
    return {
        "apiVersion": RAY_CLUSTERS.api_version,
        "kind": RAY_CLUSTERS.kind,
        "metadata": {
            "name": job.status.ray_cluster_name,
            "namespace": job.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [job_reference(job)],
        },
        "spec": spec,
    }


def _started_once(container: Json) -> Json:
    """Drop the container's own restart policy (Kubernetes 1.34): Ray would restart without its state."""
    own = ("restartPolicy", "restartPolicyRules")
    return {name: value for name, value in container.items() if name not in own}


def build_job_head_service(
    job: RayJob, cluster: RayCluster, settings: Settings, head: Pod | None
) -> Json:
    """`<rayjob>-head-svc`: a stable name for the head of the current attempt, if there is one already."""
    service = build_second_head_service(cluster, settings, head)
    name = job.metadata.name
    meta = {
        "name": f"{name}-head-svc",
        "namespace": job.metadata.namespace,
        "labels": {
            names.LABEL_ORIGIN_NAME: name,
            names.LABEL_ORIGIN_KIND: RAY_JOBS.kind,
            names.LABEL_NODE_TYPE: names.NODE_HEAD,
            names.LABEL_IDENTIFIER: check_label(f"{name}-head"),
        },
        "ownerReferences": [job_reference(job)],
    }
    service["metadata"] = propagated_metadata(meta, custom_head_annotations(cluster), {})
    return service
