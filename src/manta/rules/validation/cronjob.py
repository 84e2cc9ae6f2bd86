"""Validation of a RayCronJob: the rules of KubeRay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from manta.api.ray.cronjob import RayCronJob, RayCronJobSpec
from manta.api.ray.job import RayJobSpec
from manta.api.ray.naming import MAX_RAY_CRON_JOB_NAME
from manta.api.schedule import ScheduleError, load_zone, parse_schedule
from manta.rules.runtime_env import parse_runtime_env
from manta.rules.settings import Settings
from manta.rules.validation.cluster import spec_violations
from manta.rules.validation.job import validate_job_spec
from manta.rules.validation.violation import Violation, length_violations


def cronjob_violations(cron: RayCronJob, settings: Settings) -> tuple[Violation, ...]:
    return (
        *length_violations(cron.metadata.name, MAX_RAY_CRON_JOB_NAME),
        *_schedule(cron.spec),
        *_zone(cron.spec.time_zone),
        *_template(cron.spec, settings),
    )


def _schedule(spec: RayCronJobSpec) -> Iterator[Violation]:
    try:
        parse_schedule(spec.schedule)
    except ScheduleError as error:
        yield Violation("spec.schedule", spec.schedule, f"{error.problem}; {error.cure}")


def _zone(zone: str | None) -> Iterator[Violation]:
    try:
        load_zone(zone)
    except ScheduleError as error:
        yield Violation("spec.timeZone", zone, f"{error.problem}; {error.cure}")


def _template(spec: RayCronJobSpec, settings: Settings) -> Iterator[Violation]:
    try:
        template = msgspec.json.decode(spec.job_template, type=RayJobSpec)
    except msgspec.ValidationError as error:
        yield Violation("spec.jobTemplate", None, str(error))
        return
    yield from validate_job_spec(template, settings, "spec.jobTemplate")
    if template.ray_cluster_spec is not None:
        at = "spec.jobTemplate.rayClusterSpec"
        yield from spec_violations(template.ray_cluster_spec, {}, settings, at)
    environment = parse_runtime_env(template.runtime_env_yaml)
    if isinstance(environment, Violation):
        yield replace(environment, field="spec.jobTemplate.runtimeEnvYAML")
