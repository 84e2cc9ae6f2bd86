"""What the operator was told at its start: settings and feature gates, as frozen values.

Nothing below `cli/` reads flags, files or the environment; it is handed these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from manta import __version__
from manta.api.ray.names import DEFAULT_CLUSTER_DOMAIN

VERSION_PREFIX: Final = "manta-v"
"""What every version of Manta begins its version with, and no other operator does."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """KubeRay's gates under their own names, with KubeRay's defaults but for RayCronJob.

    RayCronJob is alpha and off there; here it is complete, and on.
    """

    ray_cluster_status_conditions: bool = True
    ray_job_deletion_policy: bool = True
    ray_multi_host_indexing: bool = True
    ray_service_incremental_upgrade: bool = True
    ray_cron_job: bool = True
    sidecar_submitter_restart: bool = False
    ray_cluster_network_policy: bool = False
    gcs_fault_tolerance_embedded_storage: bool = False
    ray_cluster_mtls: bool = False
    ray_cluster_history_server: bool = False
    kubernetes_was: bool = False


@dataclass(frozen=True, slots=True)
class OperatorPods:
    """How the operator's own Pods are told from others."""

    namespace: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Settings:
    gates: FeatureGates = FeatureGates()
    version: str = f"{VERSION_PREFIX}{__version__}"
    """Written to `ray.io/kuberay-version`: a change of operator never restarts Pods."""
    cluster_domain: str = DEFAULT_CLUSTER_DOMAIN

    # what Pods get
    inject_init_container: bool = True
    inject_probes: bool = True
    login_shell: bool = False
    deterministic_head_pod_name: bool = False
    """Every head of a cluster has the same name, `<cluster>-head`."""
    head_sidecar_containers: tuple[Mapping[str, Any], ...] = ()
    worker_sidecar_containers: tuple[Mapping[str, Any], ...] = ()
    default_container_envs: tuple[Mapping[str, Any], ...] = ()
    default_pod_labels: Mapping[str, str] = field(default_factory=dict)
    default_pod_annotations: Mapping[str, str] = field(default_factory=dict)

    # how clusters are run
    batch_scheduler: str = ""
    """The gang scheduler that Pods are marked for; empty: each Pod is scheduled by itself."""
    head_cluster_ip_service: bool = False
    random_pod_delete: bool = False
    gcs_ft_redis_cleanup: bool = True
    cluster_resync: timedelta = timedelta(seconds=300)
    openshift: bool = False
    ingress_on_openshift: bool = False
    cert_manager: bool = False
    operator_pods: OperatorPods | None = None
    """Let through the NetworkPolicies of clusters; None: nobody said where the operator runs."""

    # RayService and RayJob
    zero_downtime: bool = True
    job_transition_grace: timedelta = timedelta(seconds=300)
    job_status_check_timeout: timedelta = timedelta(seconds=300)
    delete_ray_job_after_finish: bool = False
    use_kubernetes_proxy: bool = False
    enable_metrics: bool = False
    """Whether the `kuberay_*` families are kept; those of the runtime always are."""

    # RayCronJob
    cron_replay_missed: bool = False
    """KubeRay's way: serve every tick that was missed. Ours: only the latest of them."""
    cron_successful_history: int | None = None
    """Finished RayJobs that a RayCronJob keeps unless it says otherwise; None: all."""
    cron_failed_history: int | None = None
