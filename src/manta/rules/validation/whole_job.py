"""Validation of a RayJob with its runtime environment and its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_JOBS
from manta.rules.settings import Settings
from manta.rules.validation.cluster import cluster_violations
from manta.rules.validation.job import validate_job
from manta.rules.validation.violation import Violation


def job_violations(job: RayJob, runtime_env: Any, settings: Settings) -> tuple[Violation, ...]:
    """All violations. `runtime_env` is the parsed `spec.runtimeEnvYAML`, or its Violation."""
    found = validate_job(job, settings)
    if isinstance(runtime_env, Violation):
        found.append(runtime_env)
    return (*found, *_of_cluster(job, settings))


def _of_cluster(job: RayJob, settings: Settings) -> Iterator[Violation]:
    """Violations of the cluster that this job would create."""
    if job.spec.ray_cluster_spec is None:
        return
    meta = ObjectMeta(
        name="r",  # the operator generates its name, which is always valid
        namespace=job.metadata.namespace,
        labels={names.LABEL_ORIGIN_KIND: RAY_JOBS.kind},
        annotations=job.metadata.annotations,
    )
    for one in cluster_violations(
        RayCluster(metadata=meta, spec=job.spec.ray_cluster_spec), settings
    ):
        yield replace(one, field=one.field.replace("spec.", "spec.rayClusterSpec.", 1))
