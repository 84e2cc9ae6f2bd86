"""Labels, annotations, finalizers, environment variables, ports and fixed names of the Ray kinds.

Users, Ray's autoscaler, dashboards and other operators read these. Those without `manta` are KubeRay's;
"ours" marks those that only Manta reads.
"""

from __future__ import annotations

from typing import Final

# ── the operator ─────────────────────────────────────────────────────────────────────────
OPERATOR_NAME: Final = "kuberay-operator"
APPLICATION_NAME: Final = "kuberay"
MANAGED_BY_OPERATOR: Final = "ray.io/kuberay-operator"
MANAGED_BY_MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
LABEL_KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"

# ── labels ───────────────────────────────────────────────────────────────────────────────
LABEL_CLUSTER: Final = "ray.io/cluster"
LABEL_NODE_TYPE: Final = "ray.io/node-type"
LABEL_GROUP: Final = "ray.io/group"
LABEL_IS_RAY_NODE: Final = "ray.io/is-ray-node"
LABEL_IDENTIFIER: Final = "ray.io/identifier"
LABEL_SERVE: Final = "ray.io/serve"
LABEL_HEADLESS_WORKER_SERVICE: Final = "ray.io/headless-worker-svc"
LABEL_ORIGIN_NAME: Final = "ray.io/originated-from-cr-name"
LABEL_ORIGIN_KIND: Final = "ray.io/originated-from-crd"
LABEL_JOB_SUBMISSION_MODE: Final = "ray.io/job-submission-mode"
LABEL_CRON_JOB_NAME: Final = "ray.io/cronjob-name"
LABEL_REPLICA_NAME: Final = "ray.io/worker-group-replica-name"
LABEL_REPLICA_INDEX: Final = "ray.io/worker-group-replica-index"
LABEL_HOST_INDEX: Final = "ray.io/replica-host-index"
LABEL_SERVING: Final = "manta.ray.io/serving"
"""Ours, on Pods during a canary: the RayService whose serve Service sends requests to this Pod."""
LABEL_PRIORITY_CLASS: Final = "ray.io/priority-class-name"
LABEL_GANG_SCHEDULING: Final = "ray.io/gang-scheduling-enabled"
LABEL_CONFIG_TYPE: Final = "ray.io/config-type"
LABEL_COMPUTE_TEMPLATE: Final = "ray.io/compute-template"
"""Also the annotation of a Pod template that a compute template was put into."""

IS_RAY_NODE: Final = "yes"
NODE_HEAD: Final = "head"
NODE_WORKER: Final = "worker"
NODE_REDIS_CLEANUP: Final = "redis-cleanup"
HEAD_GROUP: Final = "headgroup"
SUBMITTER_GROUP: Final = "submittergroup"
CONFIG_TYPE_COMPUTE_TEMPLATE: Final = "compute-template"
SERVE_TRUE: Final = "true"
SERVE_FALSE: Final = "false"

# labels and annotations of gang schedulers
LABEL_VOLCANO_QUEUE: Final = "volcano.sh/queue-name"
LABEL_VOLCANO_TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
LABEL_VOLCANO_TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier-allowed"
ANNOTATION_VOLCANO_TASK: Final = "volcano.sh/task-spec"
ANNOTATION_POD_GROUP_NAME: Final = "scheduling.k8s.io/group-name"
LABEL_YUNIKORN_APP_ID: Final = "yunikorn.apache.org/app-id"
LABEL_YUNIKORN_QUEUE: Final = "yunikorn.apache.org/queue"
LABEL_YUNIKORN_POD_APP_ID: Final = "applicationId"
LABEL_YUNIKORN_POD_QUEUE: Final = "queue"
ANNOTATION_YUNIKORN_TASK_GROUPS: Final = "yunikorn.apache.org/task-groups"
ANNOTATION_YUNIKORN_TASK_GROUP: Final = "yunikorn.apache.org/task-group-name"
LABEL_KAI_QUEUE: Final = "kai.scheduler/queue"
LABEL_SCHEDULER_PLUGINS_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"

# ── annotations ──────────────────────────────────────────────────────────────────────────
ANNOTATION_FT_ENABLED: Final = "ray.io/ft-enabled"
ANNOTATION_EXTERNAL_STORAGE_NAMESPACE: Final = "ray.io/external-storage-namespace"
ANNOTATION_FT_DELETION_TIMEOUT: Final = "ray.io/gcs-ft-deletion-timeout"
ANNOTATION_OVERWRITE_COMMAND: Final = "ray.io/overwrite-container-cmd"
ANNOTATION_ENABLE_SERVE_SERVICE: Final = "ray.io/enable-serve-service"
ANNOTATION_SUBMITTED_TO: Final = "manta.ray.io/submitted-to"
"""`ID@CLUSTER@HEAD`: the attempt and the head (Pod UID and restarts) that a job is submitted to, written before the
submission. The cluster's name distinguishes attempts with the same id."""
ANNOTATION_DISABLE_HEAD_RESTART: Final = "ray.io/disable-provisioned-head-restart"
ANNOTATION_SPEC_HASH: Final = "ray.io/hash-without-replicas-and-workers-to-delete"
ANNOTATION_WORKER_GROUP_COUNT: Final = "ray.io/num-worker-groups"
ANNOTATION_OPERATOR_VERSION: Final = "ray.io/kuberay-version"
ANNOTATION_RECREATE_HASH: Final = "ray.io/upgrade-strategy-recreate-hash"
ANNOTATION_DRAIN_SECONDS: Final = "manta.ray.io/drain-seconds"
"""Ours: how long a worker may drain before it is deleted."""
ANNOTATION_ROLLING_UPDATE: Final = "manta.ray.io/rolling-update"
"""Ours: `true`, or the options as JSON, for clusters whose CRD (KubeRay's) has no RollingUpdate."""
ANNOTATION_ROLLING_UPDATE_HEAD: Final = "manta.ray.io/rolling-update-head"
"""Ours: `allow` lets a rolling update replace a head whose loss costs the state of the cluster."""
ROLLING_UPDATE_HEAD_ALLOWED: Final = "allow"
ANNOTATION_ROLLING_UPDATE_RETRY: Final = "manta.ray.io/rolling-update-retry"
"""Ours: the number of a revision that was given up, and is to be tried once more."""
ANNOTATION_POD_REVISION: Final = "manta.ray.io/revision"
"""Ours, on a Pod: the ControllerRevision from which it was created."""
ANNOTATION_ADOPTS_PODS: Final = "manta.ray.io/adopts-pods"
"""Ours, on the first ControllerRevision: `true` when Pods without a revision count as of this one."""
ANNOTATION_ROLLOUT_PROGRESS: Final = "manta.ray.io/rollout-progress"
"""Ours, on a ControllerRevision: when the rolling update last made progress, as JSON."""
ANNOTATION_ROLLOUT_COMPLETED: Final = "manta.ray.io/rollout-completed"
"""Ours, on a ControllerRevision: when all Pods of this revision were first available."""
ANNOTATION_ROLLOUT_FAILED: Final = "manta.ray.io/rollout-failed"
"""Ours, on a ControllerRevision: why the rolling update to it was given up."""
ANNOTATION_STARTED_WITH: Final = "manta.ray.io/started-with"
"""Ours, on a head Pod: the port of its GCS and its authentication, as JSON."""
ANNOTATION_PROTECT_HEAD: Final = "manta.ray.io/protect-head"
"""Ours: `true` keeps `kubectl drain` from evicting the head."""
ANNOTATION_PROPAGATED: Final = "manta.ray.io/passed-on"
"""Ours, on Services and Ingresses: which of their labels and annotations come from the user's spec."""
ANNOTATION_REPLACE_UNSERVING_AFTER: Final = "manta.ray.io/replace-unserving-workers-after"
"""Ours, on a RayService: how long a worker's Serve proxy may be silent before the Pod is replaced."""
ANNOTATION_HISTORY: Final = "manta.ray.io/history"
"""On a RayCluster, RayJob or RayService: `false` keeps no history of it. On a Pod: whose history it is, as
`<kind>/<name>/<cluster>`."""
ANNOTATION_HISTORY_RAY_VERSION: Final = "manta.ray.io/history-ray-version"
ANNOTATION_SUCCESSFUL_JOBS_LIMIT: Final = "manta.ray.io/successful-jobs-history-limit"
ANNOTATION_FAILED_JOBS_LIMIT: Final = "manta.ray.io/failed-jobs-history-limit"
"""Ours, on a RayCronJob: the history limits, for clusters whose CRD (KubeRay's) has no such fields."""

# on RayClusters that sleep when nobody uses them; all ours
ANNOTATION_IDLE_SUSPEND_AFTER: Final = "manta.ray.io/idle-suspend-after"
"""Set by the user: how long nobody may use the cluster before it is suspended; `0`: never."""
ANNOTATION_IDLE_SUSPEND_WARNING: Final = "manta.ray.io/idle-suspend-warning"
"""Set by the user: how long before the suspension the Event comes that announces it."""
ANNOTATION_IDLE_SINCE: Final = "manta.ray.io/idle-since"
ANNOTATION_IDLE_EVIDENCE: Final = "manta.ray.io/idle-evidence"
"""The head and Ray's counters at that time. Other values mean that the cluster was used since."""
ANNOTATION_IDLE_SUSPEND_AT: Final = "manta.ray.io/idle-suspend-at"
"""The time that the warning announced; the suspension never comes before it."""
ANNOTATION_IDLE_SUSPENDED: Final = "manta.ray.io/idle-suspended"
"""When the operator suspended it. Without it, `spec.suspend` is the user's, or Kueue's."""
IDLE_MARKS: Final = (
    ANNOTATION_IDLE_SINCE,
    ANNOTATION_IDLE_EVIDENCE,
    ANNOTATION_IDLE_SUSPEND_AT,
    ANNOTATION_IDLE_SUSPENDED,
)
"""What the operator itself notes on such a cluster."""
ANNOTATION_USAGE: Final = "manta.ray.io/usage"
"""CPU- and GPU-hours, used and idle, of the last days (`rules/usage.py`)."""
LABEL_USER: Final = "manta.ray.io/user"
"""Set by the user: whose cluster it is, for the figures."""

# on RayClusters that a RayService creates; all ours
ANNOTATION_DELETE_AFTER: Final = "manta.ray.io/delete-after"
"""When a cluster that no longer serves is deleted."""
ANNOTATION_REPLICAS: Final = "manta.ray.io/replicas"
"""The replicas that the RayService last asked for. Only a change of these is copied to the cluster, so
that values set on the cluster by others (the autoscaler) stay."""
ANNOTATION_SERVE_PROXIES: Final = "manta.ray.io/serve-proxies"
"""`head` when the workers of this cluster have no Serve proxy."""
ANNOTATION_SERVE_CONFIG: Final = "manta.ray.io/serve-config"
ANNOTATION_SERVE_CONFIG_DOCUMENT: Final = "manta.ray.io/serve-config-document"
"""Written by earlier versions: `<hash>@<head>[+1]` of the submitted config, and the config itself. Read
and removed."""
ANNOTATION_FULL_SIZE: Final = "manta.ray.io/full-size"
"""During a canary: the size of each group (`GROUP=REPLICAS/MIN/MAX`), which the cluster gets at its end."""
ANNOTATION_REJECTED_SPEC: Final = "manta.ray.io/rejected-spec"
"""On the active cluster: the hash of the spec whose canary was rolled back, and why."""

# on RayServices, for a canary; all ours
ANNOTATION_CANARY: Final = "manta.ray.io/canary"
"""`spec.upgradeStrategy.canaryUpgradeOptions` as YAML, where KubeRay's CRD drops that field."""
ANNOTATION_CANARY_PAUSE: Final = "manta.ray.io/canary-pause"
"""`true`: no further step begins."""
ANNOTATION_CANARY_PROMOTE: Final = "manta.ray.io/canary-promote"
"""`CLUSTER/STEP`: this step of the upgrade to this cluster need not wait; `CLUSTER/all`: none need."""
ANNOTATION_CANARY_ABORT: Final = "manta.ray.io/canary-abort"
"""`CLUSTER`: the upgrade to this cluster is rolled back."""
GATE_HEAD_NOTED: Final = "manta.ray.io/head-noted"
"""A scheduling gate: the head is not scheduled before the status of its RayCluster names it."""
PREFIX_KUEUE: Final = "kueue.x-k8s.io/"
ANNOTATION_SECRET_OWNER: Final = "ray.io/secret-owner"  # noqa: S105  no password
"""On a Certificate: its own UID, once its Secret is owned by it."""
ANNOTATION_INITIALIZING_TIMEOUT: Final = "ray.io/initializing-timeout"
ANNOTATION_CRON_SCHEDULED_TIME: Final = "ray.io/cronjob-scheduled-timestamp"

# ── finalizers ───────────────────────────────────────────────────────────────────────────
FINALIZER_REDIS_CLEANUP: Final = "ray.io/gcs-ft-redis-cleanup-finalizer"
FINALIZER_RAY_JOB: Final = "ray.io/rayjob-finalizer"
FINALIZER_RAY_SERVICE: Final = "ray.io/rayservice-finalizer"

# ── environment of Ray's containers ──────────────────────────────────────────────────────
ENV_FQ_RAY_IP: Final = "FQ_RAY_IP"
ENV_RAY_IP: Final = "RAY_IP"
ENV_RAY_PORT: Final = "RAY_PORT"
ENV_RAY_ADDRESS: Final = "RAY_ADDRESS"
ENV_CLUSTER_NAME: Final = "RAY_CLUSTER_NAME"
ENV_CLUSTER_NAMESPACE: Final = "RAY_CLUSTER_NAMESPACE"
ENV_CLOUD_INSTANCE_ID: Final = "RAY_CLOUD_INSTANCE_ID"
ENV_NODE_TYPE_NAME: Final = "RAY_NODE_TYPE_NAME"
ENV_RAY_START_COMMAND: Final = "KUBERAY_GEN_RAY_START_CMD"
ENV_AUTOSCALER_START_COMMAND: Final = "KUBERAY_GEN_AUTOSCALER_START_CMD"
ENV_USAGE_STATS_IN_USE: Final = "RAY_USAGE_STATS_KUBERAY_IN_USE"
ENV_USAGE_STATS_TAGS: Final = "RAY_USAGE_STATS_EXTRA_TAGS"
ENV_DASHBOARD_K8S_DISK_USAGE: Final = "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE"
ENV_ENABLE_AUTOSCALER_V2: Final = "RAY_enable_autoscaler_v2"
ENV_HEAD_POD_NAME: Final = "RAY_HEAD_POD_NAME"
ENV_CRD_VERSION: Final = "KUBERAY_CRD_VER"

ENV_SERVE_TASK_DEATH_INFO_TIMEOUT: Final = "RAY_timeout_ms_task_wait_for_death_info"
ENV_GCS_REQUEST_TIMEOUT: Final = "RAY_gcs_server_request_timeout_seconds"
ENV_SERVE_KV_TIMEOUT: Final = "RAY_SERVE_KV_TIMEOUT_S"

ENV_GCS_RECONNECT_TIMEOUT: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
ENV_EXTERNAL_STORAGE_NAMESPACE: Final = "RAY_external_storage_namespace"
ENV_REDIS_ADDRESS: Final = "RAY_REDIS_ADDRESS"
ENV_REDIS_USERNAME: Final = "REDIS_USERNAME"
ENV_REDIS_PASSWORD: Final = "REDIS_PASSWORD"  # noqa: S105 - a name, not a password
ENV_REDIS_CONNECT_RETRIES: Final = "RAY_redis_db_connect_retries"
ENV_REDIS_CONNECT_WAIT: Final = "RAY_redis_db_connect_wait_milliseconds"
ENV_GCS_STORAGE: Final = "RAY_gcs_storage"
ENV_GCS_STORAGE_PATH: Final = "RAY_gcs_storage_path"

ENV_AUTH_MODE: Final = "RAY_AUTH_MODE"
ENV_AUTH_TOKEN: Final = "RAY_AUTH_TOKEN"  # noqa: S105 - a name, not a token
ENV_ENABLE_K8S_TOKEN_AUTH: Final = "RAY_ENABLE_K8S_TOKEN_AUTH"  # noqa: S105 - a name

ENV_USE_TLS: Final = "RAY_USE_TLS"
ENV_TLS_SERVER_CERT: Final = "RAY_TLS_SERVER_CERT"
ENV_TLS_SERVER_KEY: Final = "RAY_TLS_SERVER_KEY"
ENV_TLS_CA_CERT: Final = "RAY_TLS_CA_CERT"

ENV_DASHBOARD_ADDRESS: Final = "RAY_DASHBOARD_ADDRESS"
ENV_JOB_SUBMISSION_ID: Final = "RAY_JOB_SUBMISSION_ID"
ENV_SESSION: Final = "MANTA_RAY_SESSION"
"""Ours: the Ray session to which a submitter may submit, also for the user's own commands."""
ENV_PYTHON_UNBUFFERED: Final = "PYTHONUNBUFFERED"

ENV_POD_IP: Final = "POD_IP"
ENV_POD_NAME: Final = "POD_NAME"
ENV_RAY_VERSION: Final = "RAY_VERSION"
ENV_HISTORY_STORE: Final = "MANTA_HISTORY_STORE"
ENV_RAY_ROLE: Final = "RAY_ROLE"
ENV_OWNER_KIND: Final = "OWNER_KIND"
ENV_OWNER_NAME: Final = "OWNER_NAME"
ENV_EVENTS_PORT: Final = "EVENTS_PORT"
ENV_STORAGE_BACKEND: Final = "STORAGE_BACKEND"
ENV_ENABLE_RAY_EVENT: Final = "RAY_enable_ray_event"
ENV_ENABLE_CORE_WORKER_EVENTS: Final = "RAY_enable_core_worker_ray_event_to_aggregator"
ENV_TASK_EVENTS_INTERVAL: Final = "RAY_task_events_report_interval_ms"
ENV_EVENTS_EXPORT_ADDRESS: Final = "RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR"
ENV_EXPOSABLE_EVENT_TYPES: Final = "RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES"
ENV_PUBLISHER_EVENT_TYPES: Final = (
    "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES"
)
ENV_GCS_BUCKET: Final = "GCS_BUCKET"
ENV_S3_REGION: Final = "S3_REGION"
ENV_AZURE_CONNECTION_STRING: Final = "AZURE_STORAGE_CONNECTION_STRING"
ENV_AZURE_ACCOUNT_URL: Final = "AZURE_STORAGE_ACCOUNT_URL"
ENV_AZURE_AUTH_MODE: Final = "AZURE_STORAGE_AUTH_MODE"
ENV_OSS_BUCKET: Final = "OSS_BUCKET"
ENV_OSS_ENDPOINT: Final = "OSS_ENDPOINT"
ENV_OSS_REGION: Final = "OSS_REGION"

# ── environment of the operator ──────────────────────────────────────────────────────────
OPERATOR_ENV_INIT_CONTAINER: Final = "ENABLE_INIT_CONTAINER_INJECTION"
OPERATOR_ENV_PODS: Final = "OPERATOR_PODS"
"""NAMESPACE/LABEL=VALUE,...: selects the operator's own Pods; set by the installation."""

# ── ports ────────────────────────────────────────────────────────────────────────────────
PORT_CLIENT: Final = 10001
PORT_GCS: Final = 6379
PORT_DASHBOARD: Final = 8265
PORT_METRICS: Final = 8080
PORT_SERVE: Final = 8000
PORT_DASHBOARD_AGENT: Final = 52365
PORT_COLLECTOR_EVENTS: Final = 8084
PORT_GATEWAY: Final = 80

PORT_NAME_CLIENT: Final = "client"
PORT_NAME_GCS: Final = "gcs-server"
PORT_NAME_DASHBOARD: Final = "dashboard"
PORT_NAME_METRICS: Final = "metrics"
PORT_NAME_SERVE: Final = "serve"

# ── containers, volumes, paths, keys ─────────────────────────────────────────────────────
CONTAINER_AUTOSCALER: Final = "autoscaler"
CONTAINER_HISTORY: Final = "manta-history"
SECRET_HISTORY: Final = "manta-history"  # noqa: S105 - the name of a Secret
CONTAINER_COLLECTOR: Final = "ray-history-collector"
CONTAINER_SUBMITTER: Final = "ray-job-submitter"
CONTAINER_WAIT_GCS: Final = "wait-gcs-ready"
CONTAINER_WAIT_TLS: Final = "wait-for-tls-ip-san"

VOLUME_SHARED_MEMORY: Final = "shared-mem"
VOLUME_LOGS: Final = "ray-logs"
VOLUME_GCS_STORAGE: Final = "gcs-storage"
VOLUME_HISTORY: Final = "manta-history"
"""The volume in the user's Pod template that contains a `file://` store."""
VOLUME_HISTORY_SPOOL: Final = "manta-history-spool"
VOLUME_TOKEN: Final = "ray-token"  # noqa: S105 - the name of a volume
VOLUME_TLS: Final = "ray-tls"
MOUNT_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - where Ray's object store lives
MOUNT_LOGS: Final = "/tmp/ray"  # noqa: S108 - where Ray writes its session
MOUNT_GCS_STORAGE: Final = "/data/gcs"
MOUNT_HISTORY_SPOOL: Final = "/var/spool/manta"
MOUNT_TOKEN: Final = "/var/run/secrets/ray.io/serviceaccount"  # noqa: S105 - a path
MOUNT_TLS: Final = "/etc/ray/tls"

SECRET_KEY_AUTH_TOKEN: Final = "auth_token"  # noqa: S105 - the key inside the Secret

RESOURCE_AWS_NEURON_CORE: Final = "aws.amazon.com/neuroncore"
RESOURCE_GOOGLE_TPU: Final = "google.com/tpu"
NODE_SELECTOR_GKE_TPU_ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
NODE_SELECTOR_GKE_TPU_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"

# ── fixed names ──────────────────────────────────────────────────────────────────────────
DEFAULT_SERVE_APPLICATION: Final = "default"
DEFAULT_CLUSTER_DOMAIN: Final = "cluster.local"
LEADER_LEASE_NAME: Final = "ray-operator-leader"
