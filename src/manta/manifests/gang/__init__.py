"""Gang scheduling: what Pods and pod groups need so that a scheduler starts all of them or none.

One module per scheduler, each with the same answers: how a Pod is marked as a member, which
PodGroup (if any) its gang is told by, and whether it knows scheduling gates. All of it is pure; the
controllers' planners keep the PodGroups true.
"""

from __future__ import annotations

from manta.api.ray.cluster import RayCluster
from manta.manifests.gang.kai import KAI
from manta.manifests.gang.members import GangScheduler, PodGroups, cluster_leader
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
    """The one that this operator was told to use; None: Pods are scheduled one by one."""
    return SCHEDULERS[settings.batch_scheduler] if settings.batch_scheduler else None


def gates_are_known(settings: Settings) -> bool:
    """To the scheduler of all Pods that this operator makes."""
    scheduler = gang_scheduler(settings)
    return scheduler is None or scheduler.knows_gates


def pod_groups(settings: Settings) -> PodGroups | None:
    """Of the chosen scheduler; None: it has none, or none is chosen."""
    scheduler = gang_scheduler(settings)
    return scheduler.pod_groups if scheduler else None


def gang_group_name(cluster: RayCluster, settings: Settings) -> str:
    """Of the PodGroup that this cluster has for itself; empty: it has none."""
    groups = pod_groups(settings)
    return groups.name(cluster_leader(cluster)) if groups else ""
