"""What annotations, finalizers and environment variables mean: the words of docs/reference/annotations.md and environment.md.

`tests/architecture/test_docs.py` holds these tables against the code: every name is there, and none that is not.
"""

from __future__ import annotations

from collections.abc import Mapping

SET_BY_USERS: Mapping[str, tuple[str, str]] = {
    "ray.io/ft-enabled": (
        "RayCluster",
        "`true`: GCS fault tolerance, as before `spec.gcsFaultToleranceOptions`",
    ),
    "ray.io/external-storage-namespace": (
        "RayCluster",
        "where in Redis the GCS keeps its state; default: the UID of the cluster",
    ),
    "ray.io/gcs-ft-deletion-timeout": (
        "RayCluster",
        "seconds until a cluster goes although its Redis could not be cleaned",
    ),
    "ray.io/overwrite-container-cmd": (
        "RayCluster",
        "`true`: your command runs as it is; ours is in KUBERAY_GEN_RAY_START_CMD",
    ),
    "ray.io/enable-serve-service": (
        "RayCluster",
        "`true`: a Service for Serve, without RayService",
    ),
    "ray.io/disable-provisioned-head-restart": (
        "RayCluster",
        "`true`: a head that ends is not made again once the cluster was provisioned",
    ),
    "ray.io/initializing-timeout": (
        "RayService",
        "how long it may take to serve for the first time, such as `30m` or 1800 (seconds)",
    ),
    "manta.ray.io/drain-seconds": (
        "RayCluster",
        "how long a worker that has to go may take to finish its work",
    ),
    "manta.ray.io/protect-head": (
        "RayCluster",
        "`true` keeps `kubectl drain` from evicting the head",
    ),
    "manta.ray.io/replace-unserving-workers-after": (
        "RayService",
        "how long a worker's Serve proxy may be silent until its Pod is replaced",
    ),
    "manta.ray.io/successful-jobs-history-limit": (
        "RayCronJob",
        "as `spec.successfulJobsHistoryLimit`, where KubeRay's CRDs are installed",
    ),
    "manta.ray.io/failed-jobs-history-limit": (
        "RayCronJob",
        "as `spec.failedJobsHistoryLimit`, where KubeRay's CRDs are installed",
    ),
}
"""On which kind, and what for."""

WRITTEN_BY_US: Mapping[str, tuple[str, str]] = {
    "ray.io/hash-without-replicas-and-workers-to-delete": (
        "RayCluster of a RayService",
        "the spec that it was made of",
    ),
    "ray.io/num-worker-groups": ("RayCluster of a RayService", "how many groups that spec had"),
    "ray.io/kuberay-version": (
        "RayCluster of a RayService, head Pod",
        "whose hash that is; another's is never compared with ours",
    ),
    "ray.io/upgrade-strategy-recreate-hash": ("head Pod", "for `upgradeStrategy.type: Recreate`"),
    "ray.io/cronjob-scheduled-timestamp": ("RayJob of a RayCronJob", "its tick"),
    "ray.io/secret-owner": ("Certificate (mTLS)", "its own UID, once its Secret is owned by it"),
    "manta.ray.io/submitted-to": ("RayJob", "the attempt and the head that it was handed to"),
    "manta.ray.io/passed-on": (
        "Service, Ingress, Route",
        "which of its keys and ports a spec asked for",
    ),
    "manta.ray.io/serve-config": (
        "RayCluster of a RayService",
        "what Serve was given last, by earlier versions; only read",
    ),
    "manta.ray.io/serve-config-document": (
        "RayCluster of a RayService",
        "that config itself; only read",
    ),
    "manta.ray.io/replicas": (
        "RayCluster of a RayService",
        "the replicas that the RayService asked for, to tell an edit there from others'",
    ),
    "manta.ray.io/delete-after": ("RayCluster of a RayService", "when an old cluster goes"),
    "manta.ray.io/serve-proxies": (
        "RayCluster of a RayService",
        "`head`: its workers have no Serve proxy",
    ),
}

FINALIZERS: Mapping[str, tuple[str, str]] = {
    "ray.io/gcs-ft-redis-cleanup-finalizer": ("RayCluster", "until its Redis is clean"),
    "ray.io/rayjob-finalizer": ("RayJob", "until its job is stopped"),
    "ray.io/rayservice-finalizer": ("RayService", "until its clusters are gone"),
}

SCHEDULING_GATES: Mapping[str, tuple[str, str]] = {
    "manta.ray.io/head-noted": (
        "head Pod of a RayJob in SidecarMode",
        "until the status of its RayCluster names it",
    ),
}

OPERATOR_ENVIRONMENT: Mapping[str, tuple[str, str]] = {
    "OPERATOR_PODS": (
        "-",
        "`NAMESPACE/LABEL=VALUE,...`, set by the chart: the operator's own Pods, which the NetworkPolicies of clusters let in",
    ),
    "CLUSTER_DOMAIN": ("cluster.local", "the DNS domain of the cluster"),
    "ENABLE_INIT_CONTAINER_INJECTION": ("true", "workers wait for the GCS before they start"),
    "ENABLE_PROBES_INJECTION": ("true", "Ray containers get probes"),
    "ENABLE_LOGIN_SHELL": ("false", "commands run in a login shell"),
    "ENABLE_DETERMINISTIC_HEAD_POD_NAME": (
        "false",
        "all heads of a cluster are called `<cluster>-head`",
    ),
    "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE": ("false", "head Services get an address of their own"),
    "ENABLE_RANDOM_POD_DELETE": ("false", "workers above `replicas` go also with an autoscaler"),
    "ENABLE_GCS_FT_REDIS_CLEANUP": ("true", "Redis is cleaned when a cluster goes"),
    "ENABLE_ZERO_DOWNTIME": ("true", "RayServices are upgraded by a new cluster"),
    "DELETE_RAYJOB_CR_AFTER_JOB_FINISHES": ("false", "RayJobs go when they are over"),
    "USE_INGRESS_ON_OPENSHIFT": ("false", "Ingresses instead of Routes"),
    "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": ("300", "a look at every cluster, without a cause"),
    "RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS": (
        "300",
        "how long Ray's word and a submitter's may differ",
    ),
    "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS": ("300", "how long a dashboard may be silent"),
    "ENABLE_WEBHOOKS": ("", "no effect; the webhook is a process of its own"),
}
"""The default, and what is so when it is `true`, or what it says."""

RAY_ENVIRONMENT: Mapping[str, str] = {
    "FQ_RAY_IP": "the name of the head Service, on workers",
    "RAY_IP": "the same without the domain, on workers",
    "RAY_PORT": "of the GCS",
    "RAY_ADDRESS": "of the head, for drivers in the Pod",
    "RAY_CLUSTER_NAME": "of the RayCluster",
    "RAY_CLUSTER_NAMESPACE": "of the RayCluster",
    "RAY_CLOUD_INSTANCE_ID": "the name of the Pod",
    "RAY_NODE_TYPE_NAME": "the worker group",
    "KUBERAY_GEN_RAY_START_CMD": "the `ray start` that we made",
    "KUBERAY_GEN_AUTOSCALER_START_CMD": "the autoscaler's command that we made",
    "RAY_START_ULIMIT_OPEN_FILES": "yours to set: open files of Ray's processes (65536)",
    "RAY_USAGE_STATS_KUBERAY_IN_USE": "for Ray's usage statistics",
    "RAY_USAGE_STATS_EXTRA_TAGS": "for Ray's usage statistics",
    "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "the dashboard shows the Pod's own disk",
    "RAY_enable_autoscaler_v2": "yours to set, or by `autoscalerOptions.version`",
    "RAY_HEAD_POD_NAME": "for the autoscaler",
    "KUBERAY_CRD_VER": "for the autoscaler",
    "RAY_timeout_ms_task_wait_for_death_info": "of clusters that serve",
    "RAY_gcs_server_request_timeout_seconds": "of clusters that serve",
    "RAY_SERVE_KV_TIMEOUT_S": "of clusters that serve",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "how long workers wait for a head that comes back",
    "RAY_external_storage_namespace": "where in Redis the state is",
    "RAY_REDIS_ADDRESS": "of Redis",
    "REDIS_USERNAME": "of Redis",
    "REDIS_PASSWORD": "of Redis",
    "RAY_redis_db_connect_retries": "while Redis is cleaned",
    "RAY_redis_db_connect_wait_milliseconds": "while Redis is cleaned",
    "RAY_gcs_storage": "embedded storage of the GCS",
    "RAY_gcs_storage_path": "embedded storage of the GCS",
    "RAY_AUTH_MODE": "`token` with `authOptions`",
    "RAY_AUTH_TOKEN": "out of the cluster's Secret",
    "RAY_ENABLE_K8S_TOKEN_AUTH": "Kubernetes' own tokens count too",
    "RAY_USE_TLS": "mTLS",
    "RAY_TLS_SERVER_CERT": "mTLS",
    "RAY_TLS_SERVER_KEY": "mTLS",
    "RAY_TLS_CA_CERT": "mTLS",
    "RAY_DASHBOARD_ADDRESS": "of the head, for a submitter",
    "RAY_JOB_SUBMISSION_ID": "for a submitter",
    "MANTA_RAY_SESSION": "the Ray session that a submitter may hand its job to",
    "PYTHONUNBUFFERED": "a submitter's output comes at once",
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
    "S3_BUCKET": "storage of the history collector",
    "S3_ENDPOINT": "storage of the history collector",
    "S3_REGION": "storage of the history collector",
    "AZURE_STORAGE_CONTAINER": "storage of the history collector",
    "AZURE_STORAGE_CONNECTION_STRING": "storage of the history collector",
    "AZURE_STORAGE_ACCOUNT_URL": "storage of the history collector",
    "AZURE_STORAGE_AUTH_MODE": "storage of the history collector",
    "OSS_BUCKET": "storage of the history collector",
    "OSS_ENDPOINT": "storage of the history collector",
    "OSS_REGION": "storage of the history collector",
}

COMMAND_ENVIRONMENT: Mapping[str, str] = {
    "KUBECONFIG": "the server that commands talk to",
    "MANTA_DIR": "where `manta up` keeps a plane (`~/.manta`)",
}
