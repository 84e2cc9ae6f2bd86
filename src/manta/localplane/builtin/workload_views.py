"""The fields of StatefulSets, DaemonSets and CronJobs that their controllers read."""

from __future__ import annotations

from msgspec import field

from manta.api.core import ObjectReference
from manta.api.meta import Object, View
from manta.localplane.builtin.views import Json, WorkloadCondition


class RollingUpdate(View, frozen=True, kw_only=True):
    partition: int | None = None
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class UpdateStrategy(View, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


# ── StatefulSet ──────────────────────────────────────────────────────────────────────────
class Ordinals(View, frozen=True, kw_only=True):
    start: int = 0


class RetentionPolicy(View, frozen=True, kw_only=True):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(View, frozen=True, kw_only=True):
    replicas: int | None = None
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    ordinals: Ordinals | None = None
    persistent_volume_claim_retention_policy: RetentionPolicy | None = None
    selector: Json = field(default_factory=dict)
    template: Json = field(default_factory=dict)
    update_strategy: UpdateStrategy = UpdateStrategy()
    volume_claim_templates: tuple[Json, ...] | None = None


class StatefulSetStatus(View, frozen=True, kw_only=True):
    """A default factory keeps zeros in the document: these fields are required there."""

    replicas: int = field(default_factory=int)
    available_replicas: int = field(default_factory=int)
    ready_replicas: int | None = None
    current_replicas: int | None = None
    updated_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    observed_generation: int | None = None
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] | None = None


class StatefulSet(Object, frozen=True, kw_only=True):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def wanted(self) -> range:
        """The ordinals that should have a Pod."""
        start = self.spec.ordinals.start if self.spec.ordinals else 0
        count = 1 if self.spec.replicas is None else self.spec.replicas
        return range(start, start + count)


# ── DaemonSet ────────────────────────────────────────────────────────────────────────────
class DaemonSetSpec(View, frozen=True, kw_only=True):
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    selector: Json = field(default_factory=dict)
    template: Json = field(default_factory=dict)
    update_strategy: UpdateStrategy = UpdateStrategy()


class DaemonSetStatus(View, frozen=True, kw_only=True):
    """A default factory keeps zeros in the document: these fields are required there."""

    current_number_scheduled: int = field(default_factory=int)
    number_misscheduled: int = field(default_factory=int)
    desired_number_scheduled: int = field(default_factory=int)
    number_ready: int = field(default_factory=int)
    updated_number_scheduled: int | None = None
    number_available: int | None = None
    number_unavailable: int | None = None
    observed_generation: int | None = None
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] | None = None


class DaemonSet(Object, frozen=True, kw_only=True):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


# ── CronJob ──────────────────────────────────────────────────────────────────────────────
class CronJobSpec(View, frozen=True, kw_only=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    job_template: Json = field(default_factory=dict)


class CronJobStatus(View, frozen=True, kw_only=True):
    active: tuple[ObjectReference, ...] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object, frozen=True, kw_only=True):
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
