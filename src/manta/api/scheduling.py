"""Views of the PodGroups of gang schedulers: the fields that the operator sets."""

from __future__ import annotations

import msgspec

from manta.api.meta import Object, View


class PodGroupSpec(View, frozen=True, kw_only=True):
    min_member: int = 0
    min_resources: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class PodGroup(Object, frozen=True, kw_only=True):
    spec: PodGroupSpec = PodGroupSpec()


# ── scheduling.k8s.io/v1alpha2 ───────────────────────────────────────────────────────────


class GangPolicy(View, frozen=True, kw_only=True):
    min_count: int = 0


class SchedulingPolicy(View, frozen=True, kw_only=True):
    gang: GangPolicy | None = None


class PodGroupTemplate(View, frozen=True, kw_only=True):
    name: str = ""
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()


class WorkloadSpec(View, frozen=True, kw_only=True):
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Object, frozen=True, kw_only=True):
    spec: WorkloadSpec = WorkloadSpec()


class WorkloadPodGroupSpec(View, frozen=True, kw_only=True):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()


class WorkloadPodGroup(Object, frozen=True, kw_only=True):
    """The PodGroup of Kubernetes itself, made from a template of a Workload."""

    spec: WorkloadPodGroupSpec = WorkloadPodGroupSpec()
