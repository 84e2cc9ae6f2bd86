"""Meaning of annotations, finalizers and environment variables: docs/reference/annotations.md and environment.md.

`tests/architecture/test_docs.py` checks that these tables and the code have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping

SET_BY_USERS: Mapping[str, tuple[str, str]] = {
    "ray.io/ft-enabled": (
        "RayCluster",
        "`true` enables GCS fault tolerance; superseded by `spec.gcsFaultToleranceOptions`",
    ),
    "ray.io/external-storage-namespace": (
        "RayCluster",
        "Redis key prefix of the GCS state; default: the UID of the cluster",
    ),
    "ray.io/gcs-ft-deletion-timeout": (
        "RayCluster",
        "seconds after which a cluster is deleted even if its Redis keys could not be removed",
    ),
    "ray.io/overwrite-container-cmd": (
        "RayCluster",
        "`true`: the container's own command is used; the generated one is in KUBERAY_GEN_RAY_START_CMD",
    ),
    "ray.io/enable-serve-service": (
        "RayCluster",
        "`true` creates a Service for Ray Serve without a RayService",
    ),
    "ray.io/disable-provisioned-head-restart": (
        "RayCluster",
        "`true`: the head is not re-created after the cluster has been provisioned",
    ),
    "ray.io/initializing-timeout": (
        "RayService",
        "maximum time until it serves for the first time, such as `30m` or 1800 (seconds)",
    ),
    "manta.ray.io/drain-seconds": (
        "RayCluster",
        "maximum time that a deleted worker may take to finish its tasks",
    ),
    "manta.ray.io/rolling-update": (
        "RayCluster",
        "`true`, or the options as JSON: RollingUpdate for CRDs that do not know it",
    ),
    "manta.ray.io/rolling-update-head": (
        "RayCluster",
        "`allow`: a rolling update may replace a head without GCS fault tolerance",
    ),
    "manta.ray.io/rolling-update-retry": (
        "RayCluster",
        "number of a revision that was given up, and is to be tried once more",
    ),
    "manta.ray.io/protect-head": (
        "RayCluster",
        "`true` keeps `kubectl drain` from evicting the head",
    ),
    "manta.ray.io/replace-unserving-workers-after": (
        "RayService",
        "replace a worker whose Serve proxy has not answered for this long",
    ),
    "manta.ray.io/canary": (
        "RayService",
        "`spec.upgradeStrategy.canaryUpgradeOptions` as YAML, for KubeRay's CRDs",
    ),
    "manta.ray.io/canary-pause": (
        "RayService",
        "`CLUSTER`: its canary begins no further step; `true`: no canary does",
    ),
    "manta.ray.io/canary-promote": (
        "RayService",
        "`CLUSTER/STEP` or `CLUSTER/all`: these steps of the canary need not wait",
    ),
    "manta.ray.io/canary-abort": ("RayService", "`CLUSTER`: roll back the canary of this cluster"),
    "manta.ray.io/history": (
        "RayCluster, RayJob, RayService",
        "`false`: no history is kept of it (see the operator's `--history-store`)",
    ),
    "manta.ray.io/successful-jobs-history-limit": (
        "RayCronJob",
        "same as `spec.successfulJobsHistoryLimit`, for KubeRay's CRDs",
    ),
    "manta.ray.io/failed-jobs-history-limit": (
        "RayCronJob",
        "same as `spec.failedJobsHistoryLimit`, for KubeRay's CRDs",
    ),
    "manta.ray.io/idle-suspend-after": (
        "RayCluster",
        "how long nobody may use it before it is suspended, such as `30m`; `0`: never",
    ),
    "manta.ray.io/idle-suspend-warning": (
        "RayCluster",
        "how long before that an Event announces it; default `10m`",
    ),
    "manta.ray.io/user": (
        "RayCluster",
        "a label: whose cluster it is, in `manta usage` and its metrics",
    ),
}
"""Kind and meaning."""

WRITTEN_BY_US: Mapping[str, tuple[str, str]] = {
    "manta.ray.io/started-with": (
        "head Pod",
        "port and token that the head was started with: new workers and the operator use these until another head runs",
    ),
    "manta.ray.io/revision": (
        "Pod of a RayCluster with RollingUpdate",
        "ControllerRevision that the Pod was created from",
    ),
    "manta.ray.io/adopts-pods": (
        "first ControllerRevision of a RayCluster",
        "`true`: Pods from before it count as of this revision",
    ),
    "manta.ray.io/rollout-progress": (
        "ControllerRevision of a RayCluster",
        "when the rolling update last made progress",
    ),
    "manta.ray.io/rollout-completed": (
        "ControllerRevision of a RayCluster",
        "when all Pods of this revision were first available",
    ),
    "manta.ray.io/rollout-failed": (
        "ControllerRevision of a RayCluster",
        "when and why the rolling update to it was given up",
    ),
    "ray.io/hash-without-replicas-and-workers-to-delete": (
        "RayCluster of a RayService",
        "hash of the spec that the cluster was created from",
    ),
    "ray.io/num-worker-groups": (
        "RayCluster of a RayService",
        "number of worker groups in that spec",
    ),
    "ray.io/kuberay-version": (
        "RayCluster of a RayService, head Pod",
        "version of the operator that computed the hash; hashes of other versions are not compared",
    ),
    "ray.io/upgrade-strategy-recreate-hash": (
        "head Pod",
        "hash of the spec, for `upgradeStrategy.type: Recreate`",
    ),
    "ray.io/cronjob-scheduled-timestamp": ("RayJob of a RayCronJob", "the scheduled time"),
    "ray.io/secret-owner": (
        "Certificate (mTLS)",
        "UID of the Certificate, set after it owns its Secret",
    ),
    "manta.ray.io/idle-since": ("RayCluster", "since when nobody uses it"),
    "manta.ray.io/idle-evidence": (
        "RayCluster",
        "the head and Ray's counters since then; others mean that it was used",
    ),
    "manta.ray.io/idle-suspend-at": ("RayCluster", "the announced time of its suspension"),
    "manta.ray.io/usage": ("RayCluster", "CPU- and GPU-hours, used and idle, of the last days"),
    "manta.ray.io/idle-suspended": (
        "RayCluster",
        "when the operator suspended it because nobody used it",
    ),
    "manta.ray.io/submitted-to": (
        "RayJob",
        "the attempt, and the head and the RayCluster that it was submitted to",
    ),
    "manta.ray.io/history-ray-version": (
        "Pod",
        "the Ray version, for the history; `manta.ray.io/history` has the owner there",
    ),
    "manta.ray.io/passed-on": (
        "Service, Ingress, Route",
        "keys and ports that were set from the spec",
    ),
    "manta.ray.io/serve-config": (
        "RayCluster of a RayService",
        "hash of the last submitted Serve config, written by earlier versions",
    ),
    "manta.ray.io/serve-config-document": (
        "RayCluster of a RayService",
        "the last submitted Serve config, written by earlier versions",
    ),
    "manta.ray.io/replicas": (
        "RayCluster of a RayService",
        "replicas that the RayService requested, to detect edits by others",
    ),
    "manta.ray.io/delete-after": ("RayCluster of a RayService", "deletion time of an old cluster"),
    "manta.ray.io/full-size": (
        "RayCluster of a RayService",
        "during a canary: the size of each group at its end",
    ),
    "manta.ray.io/rejected-spec": (
        "RayCluster of a RayService",
        "hash of the spec whose canary was rolled back, and why",
    ),
    "manta.ray.io/serving": (
        "Pod of a RayService",
        "a label: during a canary, the RayService whose requests this Pod takes",
    ),
    "manta.ray.io/serve-proxies": (
        "RayCluster of a RayService",
        "`head`: only the head runs a Serve proxy",
    ),
}

FINALIZERS: Mapping[str, tuple[str, str]] = {
    "ray.io/gcs-ft-redis-cleanup-finalizer": (
        "RayCluster",
        "removed when its Redis keys are deleted",
    ),
    "ray.io/rayjob-finalizer": ("RayJob", "removed when its job is stopped"),
    "ray.io/rayservice-finalizer": ("RayService", "removed when its clusters are deleted"),
}

SCHEDULING_GATES: Mapping[str, tuple[str, str]] = {
    "manta.ray.io/head-noted": (
        "head Pod of a RayJob in SidecarMode",
        "removed when the status of its RayCluster names the Pod",
    ),
}

RAY_ENVIRONMENT: Mapping[str, str] = {
    "FQ_RAY_IP": "the name of the head Service, on workers",
    "RAY_IP": "the same without the domain, on workers",
    "RAY_PORT": "port of the GCS",
    "RAY_ADDRESS": "address of the head, for drivers in the Pod",
    "RAY_CLUSTER_NAME": "name of the RayCluster",
    "RAY_CLUSTER_NAMESPACE": "namespace of the RayCluster",
    "RAY_CLOUD_INSTANCE_ID": "the name of the Pod",
    "RAY_NODE_TYPE_NAME": "the worker group",
    "KUBERAY_GEN_RAY_START_CMD": "the generated `ray start` command",
    "KUBERAY_GEN_AUTOSCALER_START_CMD": "the generated command of the autoscaler",
    "RAY_USAGE_STATS_KUBERAY_IN_USE": "for Ray's usage statistics",
    "RAY_USAGE_STATS_EXTRA_TAGS": "for Ray's usage statistics",
    "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "the dashboard shows the disk usage of the Pod",
    "RAY_task_events_report_interval_ms": "workers report tasks twice a second, with history on `manta up`",
    "RAY_enable_autoscaler_v2": "set by users, or by `autoscalerOptions.version`",
    "RAY_HEAD_POD_NAME": "for the autoscaler",
    "KUBERAY_CRD_VER": "for the autoscaler",
    "RAY_timeout_ms_task_wait_for_death_info": "timeout for clusters of a RayService",
    "RAY_gcs_server_request_timeout_seconds": "timeout for clusters of a RayService",
    "RAY_SERVE_KV_TIMEOUT_S": "timeout for clusters of a RayService",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "seconds for which workers wait for a restarted head",
    "RAY_external_storage_namespace": "Redis key prefix of the GCS state",
    "RAY_REDIS_ADDRESS": "address of Redis",
    "REDIS_USERNAME": "user of Redis",
    "REDIS_PASSWORD": "password of Redis",
    "RAY_redis_db_connect_retries": "for the Redis cleanup Job",
    "RAY_redis_db_connect_wait_milliseconds": "for the Redis cleanup Job",
    "RAY_gcs_storage": "embedded storage of the GCS",
    "RAY_gcs_storage_path": "embedded storage of the GCS",
    "RAY_AUTH_MODE": "`token` with `authOptions`",
    "RAY_AUTH_TOKEN": "token from the cluster's Secret",
    "RAY_ENABLE_K8S_TOKEN_AUTH": "Ray also accepts Kubernetes tokens",
    "RAY_USE_TLS": "mTLS",
    "RAY_TLS_SERVER_CERT": "mTLS",
    "RAY_TLS_SERVER_KEY": "mTLS",
    "RAY_TLS_CA_CERT": "mTLS",
    "RAY_DASHBOARD_ADDRESS": "address of the head, for a submitter",
    "RAY_JOB_SUBMISSION_ID": "submission id, for a submitter",
    "MANTA_RAY_SESSION": "the Ray session that a submitter may submit to",
    "PYTHONUNBUFFERED": "unbuffered output of a submitter",
    "POD_NAME": "for `manta collect`",
    "RAY_VERSION": "for `manta collect`",
    "MANTA_HISTORY_STORE": "for `manta collect`: the history store",
    "POD_IP": "for certificates, and for the collector",
    "RAY_ROLE": "for the history collector",
    "OWNER_KIND": "for the history collector",
    "OWNER_NAME": "for the history collector",
    "EVENTS_PORT": "for the history collector",
    "STORAGE_BACKEND": "for the history collector",
    "RAY_enable_ray_event": "for the history collector",
    "RAY_enable_core_worker_ray_event_to_aggregator": "for the history collector",
    "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR": "for the history collector",
    "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES": "for the history collector",
    "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES": (
        "for the history collector"
    ),
    "GCS_BUCKET": "storage of the history collector",
    "S3_REGION": "storage of the history collector",
    "AZURE_STORAGE_CONNECTION_STRING": "storage of the history collector",
    "AZURE_STORAGE_ACCOUNT_URL": "storage of the history collector",
    "AZURE_STORAGE_AUTH_MODE": "storage of the history collector",
    "OSS_BUCKET": "storage of the history collector",
    "OSS_ENDPOINT": "storage of the history collector",
    "OSS_REGION": "storage of the history collector",
}

USER_ENVIRONMENT: Mapping[str, str] = {
    "RAY_START_ULIMIT_OPEN_FILES": "set by users: open files of Ray's processes (65536)",
    "S3_BUCKET": "storage of the history collector",
    "S3_ENDPOINT": "storage of the history collector",
    "AZURE_STORAGE_CONTAINER": "storage of the history collector",
}
"""Variables of Ray's containers that only users set."""

COMMAND_ENVIRONMENT: Mapping[str, str] = {
    "KUBECONFIG": "kubeconfig files of the cluster",
    "MANTA_DIR": "directory of the control plane (`~/.manta`)",
}
