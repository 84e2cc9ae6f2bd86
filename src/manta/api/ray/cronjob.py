"""RayCronJob: spec and status, every field of ray.io/v1, and two of ours (history limits)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from manta.api.meta import Condition, ObjectMeta, View
from manta.api.ray.fieldinfo import Time, info, list_map
from manta.api.ray.job import RayJobSpec
from manta.api.ray.manifest import Manifest

_EMPTY_TEMPLATE = msgspec.Raw(b"{}")


class CronJobConditionType(StrEnum):
    """Ours: KubeRay's RayCronJob has no conditions."""

    BLOCKED = "Blocked"
    """Present while no RayJob can be created: the spec is invalid, or the API server refuses it."""


class RayCronJobSpec(View, frozen=True, kw_only=True):
    schedule: Annotated[
        str, info("Five cron fields, or @hourly, @every 1h and the like.", required=True)
    ] = ""
    time_zone: Annotated[
        str | None, info("Zone of the schedule, such as Europe/Berlin.", minLength=1)
    ] = None
    suspend: Annotated[bool | None, info("Start no further jobs.")] = None
    job_template: Annotated[
        msgspec.Raw, info("The spec of each RayJob.", required=True, struct=RayJobSpec)
    ] = _EMPTY_TEMPLATE
    """As the user wrote it: fields that we do not know reach the RayJob unchanged."""
    successful_jobs_history_limit: Annotated[
        int | None, info("Succeeded RayJobs to keep; all if unset. Manta only.", minimum=0)
    ] = None
    failed_jobs_history_limit: Annotated[
        int | None, info("Failed RayJobs to keep; all if unset. Manta only.", minimum=0)
    ] = None


class RayCronJobStatus(View, frozen=True, kw_only=True):
    last_schedule_time: Annotated[
        Time | None, info("The last tick for which a RayJob was created.")
    ] = None
    conditions: Annotated[
        tuple[Condition, ...], info("Conditions of the RayCronJob. Manta only.", **list_map("type"))
    ] = ()


class RayCronJob(Manifest, frozen=True, kw_only=True):
    """A RayJob for every tick of a schedule."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayCronJobSpec = RayCronJobSpec()
    status: RayCronJobStatus = RayCronJobStatus()
