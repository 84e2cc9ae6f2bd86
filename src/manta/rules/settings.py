"""Settings and feature gates of the operator, as frozen values.

`operator/options.py` reads them from flags, files and the environment; nothing below does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from manta import __version__
from manta.api.ray.names import DEFAULT_CLUSTER_DOMAIN

VERSION_PREFIX: Final = "manta-v"
"""Prefix of Manta's versions; no other operator uses it."""


def _gate(name: str, *, default: bool) -> bool:
    """A field of `FeatureGates`; `name` is its name in `--feature-gates`."""
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """KubeRay's gates and defaults, except that RayCronJob (alpha there) is on."""

    ray_cluster_status_conditions: bool = _gate("RayClusterStatusConditions", default=True)
    ray_job_deletion_policy: bool = _gate("RayJobDeletionPolicy", default=True)
    ray_multi_host_indexing: bool = _gate("RayMultiHostIndexing", default=True)
    ray_service_incremental_upgrade: bool = _gate("RayServiceIncrementalUpgrade", default=True)
    ray_cron_job: bool = _gate("RayCronJob", default=True)
    sidecar_submitter_restart: bool = _gate("SidecarSubmitterRestart", default=False)
    ray_cluster_network_policy: bool = _gate("RayClusterNetworkPolicy", default=False)
    gcs_fault_tolerance_embedded_storage: bool = _gate(
        "GCSFaultToleranceEmbeddedStorage", default=False
    )
    ray_cluster_mtls: bool = _gate("RayClusterMTLS", default=False)
    ray_cluster_history_server: bool = _gate("RayClusterHistoryServer", default=False)
    kubernetes_was: bool = _gate("KubernetesWAS", default=False)


@dataclass(frozen=True, slots=True)
class OperatorPods:
    """Which Pods are the operator's own."""

    namespace: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Settings:
    gates: FeatureGates = FeatureGates()
    version: str = f"{VERSION_PREFIX}{__version__}"
    """Written to the annotation `ray.io/kuberay-version`. A new version does not restart Pods."""
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

    history_store: str = ""
    """URL of the store that keeps logs and events of clusters; `node`: the node agent of `manta up` keeps
    them; empty: nobody."""

    history_image: str = ""
    """Image with `manta`, for the sidecars that ship to `history_store`."""

    native_sidecars: bool = True
    """Whether the API server knows init containers that stay (Kubernetes 1.29)."""

    # how clusters are run
    batch_scheduler: str = ""
    """The gang scheduler; empty: each Pod is scheduled by itself."""
    head_cluster_ip_service: bool = False
    random_pod_delete: bool = False
    gcs_ft_redis_cleanup: bool = True
    cluster_resync: timedelta = timedelta(seconds=300)
    openshift: bool = False
    ingress_on_openshift: bool = False
    cert_manager: bool = False
    operator_pods: OperatorPods | None = None
    """Allowed by the NetworkPolicies of clusters; None: unknown."""

    idle_suspend: str = ""
    """After how long without use clusters are suspended by default (`rules/idle.py`); empty: never."""

    # RayService and RayJob
    zero_downtime: bool = True
    job_transition_grace: timedelta = timedelta(seconds=300)
    job_status_check_timeout: timedelta = timedelta(seconds=300)
    delete_ray_job_after_finish: bool = False
    use_kubernetes_proxy: bool = False
    prometheus_address: str = ""
    """URL of the Prometheus that canaries may query; empty: none may."""
    enable_metrics: bool = False
    """Whether the `kuberay_*` metrics are exported; those of the runtime always are."""

    # RayCronJob
    cron_replay_missed: bool = False
    """True: run every missed tick, as KubeRay does. False: only the latest."""
    cron_successful_history: int | None = None
    """Finished RayJobs that a RayCronJob keeps by default; None: all."""
    cron_failed_history: int | None = None
