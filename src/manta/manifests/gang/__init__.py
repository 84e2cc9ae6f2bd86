"""Gang scheduling: the labels, annotations and PodGroups by which a scheduler starts all Pods or none.

One module per scheduler says how a Pod is marked as a member, which PodGroup (if any) its gang has, and whether the
scheduler respects scheduling gates. All of it is pure; the controllers' planners create the PodGroups.
"""

from __future__ import annotations

from manta.api.ray.cluster import RayCluster
from manta.manifests.gang.kai import KAI
from manta.manifests.gang.kubernetes_was import KUBERNETES_WAS
from manta.manifests.gang.members import GangScheduler, PodGroups, cluster_gang
from manta.manifests.gang.scheduler_plugins import SCHEDULER_PLUGINS
from manta.manifests.gang.volcano import VOLCANO
from manta.manifests.gang.yunikorn import YUNIKORN
from manta.rules.settings import Settings

SCHEDULERS: dict[str, GangScheduler] = {
    "volcano": VOLCANO,
    "yunikorn": YUNIKORN,
    "kai-scheduler": KAI,
    "scheduler-plugins": SCHEDULER_PLUGINS,
}


def gang_scheduler(settings: Settings) -> GangScheduler | None:
    """The configured gang scheduler; None: Pods are scheduled one by one."""
    if settings.gates.kubernetes_was:
        return KUBERNETES_WAS
    return SCHEDULERS[settings.batch_scheduler] if settings.batch_scheduler else None


def supports_scheduling_gates(settings: Settings) -> bool:
    """Whether the scheduler of our Pods respects scheduling gates."""
    scheduler = gang_scheduler(settings)
    return scheduler is None or scheduler.supports_scheduling_gates


def pod_groups(settings: Settings) -> PodGroups | None:
    """The PodGroups of the configured scheduler; None: it has none, or none is configured."""
    scheduler = gang_scheduler(settings)
    return scheduler.pod_groups if scheduler else None


def gang_group_name(cluster: RayCluster, settings: Settings) -> str:
    """The name of the PodGroup of this cluster; empty: it has none."""
    groups = pod_groups(settings)
    return groups.name(cluster_gang(cluster)) if groups else ""
