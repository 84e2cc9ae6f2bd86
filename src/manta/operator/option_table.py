"""Every flag, configuration key and environment variable of the operator.

A new one needs a row here, and a field of `Settings` or `Options` that it sets. `make docs` and
`make chart` write the reference pages and the chart's arguments from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from manta.api.ray.names import OPERATOR_ENV_INIT_CONTAINER, OPERATOR_ENV_PODS
from manta.httpserver.address import Address
from manta.manifests.gang import SCHEDULERS
from manta.rules.history import HISTORY_BY_NODE, store_url_problem, without_credentials
from manta.rules.idle import checked_idle_defaults
from manta.rules.settings import OperatorPods

ENCODERS: Final = ("json", "console")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, and the key of the configuration file that sets the same."""

    name: str
    """Without the leading dashes."""
    type: type
    default: Any
    about: str
    key: str = ""
    """In the configuration file; empty: the file cannot set it."""
    setting: str = ""
    """The field of `Settings` that it sets."""
    option: str = ""
    """The field of `Options` that it sets."""
    convert: Callable[[Any], Any] | None = None
    """Converts the flag's value to that of the field. Raises ValueError."""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    with_config_file: bool = False
    """The flag has an effect even if a configuration file is given."""
    chart: str = ""
    """The template expression of its value in the Helm chart; empty: the chart does not set it."""
    installed: Any = None
    """Its value in the chart and in `manta install`, if that is not the default."""

    @property
    def dest(self) -> str:
        """Its attribute in an argparse namespace."""
        return self.name.replace("-", "_")


def split_names(text: str) -> tuple[str, ...]:
    """`a, b` as ("a", "b")."""
    return tuple(filter(None, (one.strip() for one in text.split(","))))


def parse_history_store(text: str) -> str:
    """The URL itself. Raises ValueError."""
    if text not in ("", HISTORY_BY_NODE) and (problem := store_url_problem(text)):
        raise ValueError(f"history store {without_credentials(text)}: {problem}")
    return text


def parse_prometheus_address(text: str) -> str:
    """The URL itself. Raises ValueError."""
    url = urlsplit(text)
    if text and (url.scheme not in ("http", "https") or not url.hostname or url.username):
        raise ValueError(
            f"Prometheus address {without_credentials(text)}: must be a URL without a password,"
            " such as http://prometheus.monitoring:9090"
        )
    return text


FLAGS: Final = (
    Flag(
        "metrics-addr",
        str,
        ":8080",
        "address of /metrics; 0: none",
        "metricsAddr",
        option="metrics",
        convert=Address.parse,
    ),
    Flag(
        "health-probe-bind-address",
        str,
        ":8082",
        "address of /healthz and /readyz; 0: none",
        "probeAddr",
        option="probes",
        convert=Address.parse,
    ),
    Flag(
        "enable-leader-election",
        bool,
        True,
        "only the replica that holds the Lease reconciles",
        "enableLeaderElection",
        option="leader_election",
        chart=".Values.leaderElectionEnabled",
    ),
    Flag(
        "leader-election-namespace",
        str,
        "",
        "namespace of the Lease; empty: the operator's own",
        "leaderElectionNamespace",
        option="leader_election_namespace",
        chart=".Release.Namespace",
    ),
    # KubeRay's charts always pass 1. That must not slow down controllers that wait for Ray: a
    # worker costs nothing here, and the API server answers 429 when there are too many requests.
    Flag(
        "reconcile-concurrency",
        int,
        None,
        "concurrent reconciles of each controller; never lowers the controller's own number",
        "reconcileConcurrency",
        option="concurrency",
        minimum=1,
        chart=".Values.reconcileConcurrency",
        installed=1,
    ),
    Flag(
        "watch-namespace",
        str,
        "",
        "namespaces to watch, comma-separated; empty: all",
        "watchNamespace",
        option="namespaces",
        convert=split_names,
    ),
    Flag("forced-cluster-upgrade", bool, False, "no effect; accepted from KubeRay's charts"),
    Flag(
        "tracing",
        bool,
        False,
        "export traces by OTLP/HTTP; OTEL_EXPORTER_OTLP_ENDPOINT does so too (needs the extra `otel`)",
        "tracing",
        option="tracing",
    ),
    Flag("log-file-path", str, "", "also log to this file", "logFile", option="log_file"),
    Flag(
        "log-file-encoder",
        str,
        "json",
        "json or console",
        "logFileEncoder",
        option="file_encoder",
        choices=ENCODERS,
        with_config_file=True,
    ),
    Flag(
        "log-stdout-encoder",
        str,
        "json",
        "json or console",
        "logStdoutEncoder",
        option="stdout_encoder",
        choices=ENCODERS,
        with_config_file=True,
    ),
    Flag(
        "record",
        str,
        "",
        "keep the last reconciles in this folder, without secrets, for `manta replay`; empty: do not",
        "record",
        option="record",
        with_config_file=True,
    ),
    Flag(
        "record-mib",
        int,
        16,
        "most MiB of files in --record; the oldest are deleted",
        "recordMiB",
        option="record_mib",
        minimum=1,
        with_config_file=True,
    ),
    Flag(
        "enable-batch-scheduler",
        bool,
        False,
        "same as --batch-scheduler=volcano; deprecated",
        "enableBatchScheduler",
    ),
    Flag(
        "batch-scheduler",
        str,
        "",
        f"gang scheduler of the Pods of a cluster: {', '.join(SCHEDULERS)}",
        "batchScheduler",
        setting="batch_scheduler",
    ),
    Flag(
        "use-kubernetes-proxy",
        bool,
        False,
        "reach Ray dashboards through the API server",
        "useKubernetesProxy",
        setting="use_kubernetes_proxy",
        chart=".Values.useKubernetesProxy",
    ),
    Flag(
        "enable-metrics",
        bool,
        False,
        "also serve the kuberay_* metrics",
        "enableMetrics",
        setting="enable_metrics",
        chart=".Values.metrics.enabled",
        installed=True,
    ),
    Flag(
        "qps",
        float,
        0.0,
        "requests a second; 0: adapt to the 429s of the API server; negative: no limit",
        "qps",
        option="qps",
        convert=float,
        chart=".Values.kubeClient.qps",
        installed=0,
    ),
    Flag(
        "burst",
        int,
        200,
        "burst of requests above --qps",
        "burst",
        option="burst",
        minimum=1,
        chart=".Values.kubeClient.burst",
    ),
    Flag(
        "prometheus-address",
        str,
        "",
        "URL of the Prometheus that the analysis of canaries may query, such as http://prometheus.monitoring:9090",
        "prometheusAddress",
        setting="prometheus_address",
        convert=parse_prometheus_address,
    ),
    Flag(
        "history-store",
        str,
        "",
        "keep logs and events of clusters at this URL (file, s3, gs, az); `node` on `manta up`; empty: nowhere",
        "historyStore",
        setting="history_store",
        convert=parse_history_store,
    ),
    Flag(
        "history-image",
        str,
        "",
        "image of the sidecars that ship to --history-store; it must have `manta[history]`",
        "historyImage",
        setting="history_image",
    ),
    Flag(
        "idle-suspend",
        str,
        "",
        "suspend clusters that nobody uses: 8h, or 30m@NAMESPACE,2h@LABEL=VALUE,8h (the first match counts); empty: none",
        "idleSuspend",
        setting="idle_suspend",
        convert=checked_idle_defaults,
    ),
    Flag(
        "cron-replay-missed",
        bool,
        False,
        "RayCronJobs run every missed schedule, not only the last",
        "cronReplayMissed",
        setting="cron_replay_missed",
    ),
    Flag(
        "cron-successful-history",
        int,
        None,
        "successful RayJobs that a RayCronJob keeps",
        "cronSuccessfulHistory",
        setting="cron_successful_history",
        minimum=0,
    ),
    Flag(
        "cron-failed-history",
        int,
        None,
        "failed RayJobs that a RayCronJob keeps",
        "cronFailedHistory",
        setting="cron_failed_history",
        minimum=0,
    ),
)

CONFIGURATION_KEYS: Final[Mapping[str, tuple[str, type]]] = {
    "headSidecarContainers": ("head_sidecar_containers", list),
    "workerSidecarContainers": ("worker_sidecar_containers", list),
    "defaultContainerEnvs": ("default_container_envs", list),
    "defaultPodLabels": ("default_pod_labels", dict),
    "defaultPodAnnotations": ("default_pod_annotations", dict),
    "deleteRayJobAfterJobFinishes": ("delete_ray_job_after_finish", bool),
}
"""Keys of the configuration file that have no flag: field of `Settings` and type."""


# ── environment variables ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable, and the field of `Settings` that it sets."""

    name: str
    setting: str
    about: str
    minimum: int = 1
    """Smallest value of a variable in seconds."""
    parse: Callable[[str], Any] | None = None
    """For other types than bool, str and timedelta. Raises ValueError."""

    def value(self, text: str, default: Any) -> Any:
        """`text` by the type of the default. As in KubeRay, only the opposite of its default changes a bool.

        Raises ValueError for text that cannot be parsed.
        """
        if isinstance(default, bool):
            return text.lower() != "false" if default else text.lower() == "true"
        if not text:
            return default
        if self.parse is not None:
            return self.parse(text)
        if not isinstance(default, timedelta):
            return text
        if not text.isdecimal() or int(text) < self.minimum:
            raise ValueError(f"not a whole number of at least {self.minimum}")
        return timedelta(seconds=int(text))


def parse_operator_pods(text: str) -> OperatorPods:
    """`NAMESPACE/LABEL=VALUE,...`. Raises ValueError for other text."""
    namespace, _, selector = text.partition("/")
    pairs = [one.partition("=") for one in selector.split(",")]
    if not namespace or not all(name and value for name, _, value in pairs):
        raise ValueError("not NAMESPACE/LABEL=VALUE,...")
    return OperatorPods(namespace, {name: value for name, _, value in pairs})


VARIABLES: Final = (
    Variable(
        OPERATOR_ENV_PODS,
        "operator_pods",
        "`NAMESPACE/LABEL=VALUE,...`, set by the chart: selects the operator's Pods, which the NetworkPolicies of clusters admit",
        parse=parse_operator_pods,
    ),
    Variable("CLUSTER_DOMAIN", "cluster_domain", "the DNS domain of the cluster"),
    Variable(
        OPERATOR_ENV_INIT_CONTAINER,
        "inject_init_container",
        "workers wait for the GCS before they start",
    ),
    Variable("ENABLE_PROBES_INJECTION", "inject_probes", "Ray containers get probes"),
    Variable("ENABLE_LOGIN_SHELL", "login_shell", "commands run in a login shell"),
    Variable(
        "ENABLE_DETERMINISTIC_HEAD_POD_NAME",
        "deterministic_head_pod_name",
        "the head Pod is always named `<cluster>-head`",
    ),
    Variable(
        "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE",
        "head_cluster_ip_service",
        "head Services have a cluster IP",
    ),
    Variable(
        "ENABLE_RANDOM_POD_DELETE",
        "random_pod_delete",
        "surplus workers are deleted even with an autoscaler",
    ),
    Variable(
        "ENABLE_GCS_FT_REDIS_CLEANUP",
        "gcs_ft_redis_cleanup",
        "a Job removes the Redis keys of a deleted cluster",
    ),
    Variable(
        "ENABLE_ZERO_DOWNTIME", "zero_downtime", "RayServices are upgraded with a new cluster"
    ),
    Variable(
        "DELETE_RAYJOB_CR_AFTER_JOB_FINISHES",
        "delete_ray_job_after_finish",
        "finished RayJobs are deleted",
    ),
    Variable(
        "USE_INGRESS_ON_OPENSHIFT", "ingress_on_openshift", "Ingresses are used instead of Routes"
    ),
    Variable(
        "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV",
        "cluster_resync",
        "resync interval of RayClusters, in seconds",
    ),
    Variable(
        "RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS",
        "job_transition_grace",
        "seconds for which the submitter and Ray may disagree",
        minimum=0,
    ),
    Variable(
        "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS",
        "job_status_check_timeout",
        "seconds for which a dashboard may not answer",
    ),
)

VARIABLES_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "ENABLE_WEBHOOKS": "the webhook is a process of its own (manta webhook)"
}
"""Variables of KubeRay that the operator warns about if they are `true`."""
