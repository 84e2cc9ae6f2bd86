"""What `manta operator` was told: flags, the environment and a configuration file, checked.

The names and their meaning are KubeRay's. As there, a configuration file replaces all flags but
the feature gates and the log encoders. Whatever is not understood is an error with a cure.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.cli.usage import UsageError, did_you_mean
from manta.manifests.gang import SCHEDULERS
from manta.rules.settings import FeatureGates, OperatorPods, Settings
from manta.runtime.health import Address

log = logging.getLogger(__name__)

ENCODERS = ("json", "console")
API_VERSION, KIND = "config.ray.io/v1alpha1", "Configuration"


@dataclass(frozen=True, slots=True)
class Options:
    settings: Settings
    metrics: Address | None
    probes: Address | None
    leader_election: bool = True
    leader_election_namespace: str = ""
    concurrency: int | None = None
    """Fewest workers of every controller; None: as many as each thinks right."""
    namespaces: tuple[str, ...] = ()
    qps: float = 0.0
    """0: what the server takes, by its own word; below zero: no limit."""
    burst: int = 200
    stdout_encoder: Literal["json", "console"] = "json"
    file_encoder: Literal["json", "console"] = "json"
    log_file: str = ""
    log_level: int = logging.INFO
    tracing: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be set by a flag, and maybe by a key of the configuration file."""

    flag: str
    kind: type
    default: Any
    about: str
    key: str = ""
    """In the configuration file; '' when it cannot be set there."""
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.flag.replace("-", "_")


def _limit(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


OPTIONS: tuple[Option, ...] = (
    Option("metrics-addr", str, ":8080", "where /metrics is served; 0: nowhere", "metricsAddr"),
    Option("health-probe-bind-address", str, ":8082", "/healthz and /readyz", "probeAddr"),
    Option("enable-leader-election", bool, True, "only one replica works", "enableLeaderElection"),
    Option("leader-election-namespace", str, "", "of the lease", "leaderElectionNamespace"),
    # KubeRay's default of 1, which its charts always pass, must not slow down controllers that wait
    # for Ray: a worker costs nothing here, and the server says 429 when it is too much.
    Option(
        "reconcile-concurrency",
        int,
        None,
        "rounds at once in each controller; only ever raises its own number",
        "reconcileConcurrency",
    ),
    Option("watch-namespace", str, "", "comma-separated; empty: all", "watchNamespace"),
    Option("forced-cluster-upgrade", bool, False, "no effect; kept for KubeRay's charts"),
    Option(
        "tracing",
        bool,
        False,
        "export traces by OTLP/HTTP; also on by OTEL_EXPORTER_OTLP_ENDPOINT (needs manta[otel])",
        "tracing",
    ),
    Option("log-file-path", str, "", "also log to this file", "logFile"),
    Option("log-file-encoder", str, "json", "json or console", "logFileEncoder", ENCODERS),
    Option("log-stdout-encoder", str, "json", "json or console", "logStdoutEncoder", ENCODERS),
    Option("enable-batch-scheduler", bool, False, "as volcano; deprecated", "enableBatchScheduler"),
    Option(
        "batch-scheduler",
        str,
        "",
        f"start the Pods of a cluster all together or not at all: {', '.join(SCHEDULERS)}",
        "batchScheduler",
    ),
    Option(
        "use-kubernetes-proxy", bool, False, "reach Ray by the API server", "useKubernetesProxy"
    ),
    Option("enable-metrics", bool, False, "also keep kuberay_* metrics", "enableMetrics"),
    Option(
        "qps",
        float,
        0.0,
        "requests a second; 0: as many as the server takes, fewer when it says 429; below zero: "
        "never fewer",
        "qps",
    ),
    Option("burst", int, 200, "requests at once, beside --qps", "burst"),
    Option("cron-replay-missed", bool, False, "serve every missed tick", "cronReplayMissed"),
    Option("cron-successful-history", int, None, "RayJobs kept", "cronSuccessfulHistory"),
    Option("cron-failed-history", int, None, "failed RayJobs kept", "cronFailedHistory"),
)
_ALWAYS_FROM_FLAGS = frozenset({"log-file-encoder", "log-stdout-encoder"})

# Keys of the configuration file that no flag has.
POD_KEYS: Mapping[str, tuple[str, type]] = {
    "headSidecarContainers": ("head_sidecar_containers", list),
    "workerSidecarContainers": ("worker_sidecar_containers", list),
    "defaultContainerEnvs": ("default_container_envs", list),
    "defaultPodLabels": ("default_pod_labels", dict),
    "defaultPodAnnotations": ("default_pod_annotations", dict),
    "deleteRayJobAfterJobFinishes": ("delete_ray_job_after_finish", bool),
}


# ── flags ────────────────────────────────────────────────────────────────────────────────


def add_flags(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    for option in OPTIONS:
        _add(parser, option)
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"{API_VERSION} {KIND}")
    parser.add_argument("--feature-gates", default="", metavar="A=true,B=false", help=gate_help())
    parser.add_argument(
        "--zap-log-level", default="info", metavar="LEVEL", help="debug, info, error"
    )
    parser.add_argument("--zap-devel", nargs="?", type=_boolean, const=True, default=False)
    parser.add_argument("--zap-encoder", choices=ENCODERS, default=None)
    parser.add_argument("--zap-stacktrace-level", default=None, help="accepted; no effect")
    parser.add_argument("--zap-time-encoding", default=None, help="accepted; no effect")


def _add(parser: argparse.ArgumentParser | argparse._ArgumentGroup, option: Option) -> None:
    default = "" if option.default is None else f" (default: {option.default!r})"
    shown = f"{option.about}{default}"
    more: dict[str, Any] = {"default": None, "help": shown}
    if option.kind is bool:  # as in Go: --flag, --flag=true, --flag=false
        more |= {"nargs": "?", "const": True, "type": _boolean, "metavar": "true|false"}
    elif option.default is None:
        more |= {"type": _limit, "metavar": "N"}
    else:
        more |= {"type": option.kind}
    if option.choices:
        more |= {"choices": option.choices}
    parser.add_argument(f"--{option.flag}", dest=option.name, **more)


def _boolean(text: str) -> bool:
    if text.lower() in {"true", "t", "1"}:
        return True
    if text.lower() in {"false", "f", "0"}:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


# ── feature gates ────────────────────────────────────────────────────────────────────────

GATES: Mapping[str, str] = {
    "RayClusterStatusConditions": "ray_cluster_status_conditions",
    "RayJobDeletionPolicy": "ray_job_deletion_policy",
    "RayMultiHostIndexing": "ray_multi_host_indexing",
    "RayServiceIncrementalUpgrade": "ray_service_incremental_upgrade",
    "RayCronJob": "ray_cron_job",
    "SidecarSubmitterRestart": "sidecar_submitter_restart",
    "RayClusterNetworkPolicy": "ray_cluster_network_policy",
    "GCSFaultToleranceEmbeddedStorage": "gcs_fault_tolerance_embedded_storage",
    "RayClusterMTLS": "ray_cluster_mtls",
    "RayClusterHistoryServer": "ray_cluster_history_server",
    "KubernetesWAS": "kubernetes_was",
}


def gate_help() -> str:
    defaults = FeatureGates()
    shown = (f"{name}={str(getattr(defaults, gate)).lower()}" for name, gate in GATES.items())
    return "features to switch; defaults: " + ", ".join(shown)


def parse_feature_gates(text: str) -> FeatureGates:
    chosen: dict[str, bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if name not in GATES:
            raise UsageError(
                f"--feature-gates: unknown feature gate {name!r}{did_you_mean(name, GATES)}; "
                f"known: {', '.join(GATES)}"
            )
        try:
            chosen[GATES[name]] = _boolean(value if equals else "true")
        except argparse.ArgumentTypeError as error:
            raise UsageError(
                f"--feature-gates: {name}: {error}; write {name}=true or {name}=false"
            ) from error
    return dataclasses.replace(FeatureGates(), **chosen)


# ── the configuration file ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration file, checked: values by flag, and Pod defaults by field of Settings."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    pods: Mapping[str, Any] = field(default_factory=dict)


def read_configuration(path: Path) -> Configuration:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror}") from error
    return parse_configuration(text, str(path))


def parse_configuration(text: str | bytes, origin: str) -> Configuration:
    try:
        document = read_yaml(text)
    except DocumentError as error:
        raise UsageError(f"the configuration {origin} is no YAML: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"the configuration {origin} must be a YAML object")
    return check_configuration(document, origin)


def check_configuration(document: Mapping[str, Any], origin: str) -> Configuration:
    known = {option.key: option for option in OPTIONS if option.key}
    _check_kind(document, origin)
    flags: dict[str, Any] = {}
    pods: dict[str, Any] = {}
    for key, value in document.items():
        if key in {"apiVersion", "kind", "metadata"}:
            continue
        if value is None and (key in known or key in POD_KEYS):
            continue  # as in every Kubernetes object: not given
        if key in known:
            _check_type(origin, key, value, known[key].kind)
            flags[known[key].flag] = value
        elif key in POD_KEYS:
            name, kind = POD_KEYS[key]
            _check_type(origin, key, value, kind)
            pods[name] = tuple(value) if kind is list else value
        else:
            names = ", ".join(sorted((*known, *POD_KEYS)))
            raise UsageError(f"{origin}: unknown key {key!r}; known: {names}")
    return Configuration(flags, pods)


def _check_kind(document: Mapping[str, Any], origin: str) -> None:
    found = (document.get("apiVersion", API_VERSION), document.get("kind", KIND))
    if found != (API_VERSION, KIND):
        raise UsageError(f"{origin}: is {found[0]} {found[1]}, not {API_VERSION} {KIND}")


def _check_type(origin: str, key: str, value: Any, kind: type) -> None:
    wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{origin}: {key} must be {_TYPE_NAMES[kind]}, not {value!r}")


_TYPE_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


# ── all together ─────────────────────────────────────────────────────────────────────────


def options_from(
    args: argparse.Namespace,
    environment: Mapping[str, str],
    read: Callable[[Path], Configuration] = read_configuration,
) -> Options:
    """Everything that was said, as one value; UsageError names what cannot be meant."""
    configuration = read(args.config) if args.config else None
    given = {option.flag: getattr(args, option.name) for option in OPTIONS}
    values = _values(given, configuration)
    gates = parse_feature_gates(args.feature_gates)
    warnings = [*_ignored(given, configuration), *_pointless(environment, gates)]
    settings = dataclasses.replace(
        settings_from(values, environment, warnings),
        gates=gates,
        **(configuration.pods if configuration else {}),
    )
    return Options(
        settings=settings,
        metrics=_address("metrics-addr", values),
        probes=_address("health-probe-bind-address", values),
        leader_election=values["enable-leader-election"],
        leader_election_namespace=values["leader-election-namespace"],
        concurrency=_concurrency(values),
        namespaces=tuple(
            filter(None, (one.strip() for one in values["watch-namespace"].split(",")))
        ),
        qps=float(values["qps"]),
        burst=_at_least_one("burst", values),
        stdout_encoder=_stdout_encoder(args, values),
        file_encoder=values["log-file-encoder"],
        log_file=values["log-file-path"],
        log_level=_log_level(args),
        tracing=values["tracing"],
        warnings=tuple(warnings),
    )


def _values(given: Mapping[str, Any], configuration: Configuration | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for option in OPTIONS:
        told = given[option.flag]
        if configuration is not None and option.flag not in _ALWAYS_FROM_FLAGS:
            told = configuration.flags.get(option.flag)
        values[option.flag] = option.default if told is None else told
    return values


def _batch_scheduler(values: Mapping[str, Any]) -> str:
    """Better not to start than to start half a gang that waits for ever for its other half."""
    wanted, legacy = str(values["batch-scheduler"]), values["enable-batch-scheduler"]
    if wanted and wanted not in SCHEDULERS:
        known = ", ".join(SCHEDULERS)
        raise UsageError(
            f"--batch-scheduler: {wanted!r} is none of {known}; Kueue needs no scheduler here"
        )
    if legacy and wanted not in ("", "volcano"):
        raise UsageError(
            f"--enable-batch-scheduler means volcano, and --batch-scheduler says {wanted}: "
            "leave out --enable-batch-scheduler"
        )
    return "volcano" if legacy else wanted


def _ignored(given: Mapping[str, Any], configuration: Configuration | None) -> Sequence[str]:
    if configuration is None:
        return ()
    flags = [f"--{flag}" for flag, told in given.items() if told is not None]
    flags = [flag for flag in flags if flag.removeprefix("--") not in _ALWAYS_FROM_FLAGS]
    return [f"{', '.join(flags)}: ignored, because --config is given"] if flags else ()


GATES_WITHOUT_EFFECT: Mapping[str, str] = {
    "KubernetesWAS": "Pods are not put into Kubernetes' own PodGroups",
}


def _pointless(environment: Mapping[str, str], gates: FeatureGates) -> Iterator[str]:
    if environment.get("ENABLE_WEBHOOKS") == "true":
        yield "ENABLE_WEBHOOKS: ignored; the webhook is a process of its own (manta webhook)"
    for name, lacking in GATES_WITHOUT_EFFECT.items():
        if getattr(gates, GATES[name]):
            yield f"feature gate {name} has no effect here: {lacking}"


def settings_from(
    values: Mapping[str, Any], environment: Mapping[str, str], warnings: list[str]
) -> Settings:
    """Settings of flags and of KubeRay's environment variables."""

    def unless_false(name: str) -> bool:
        return environment.get(name, "").lower() != "false"

    def if_true(name: str) -> bool:
        return environment.get(name, "").lower() == "true"

    def seconds(name: str, default: timedelta, least: int = 1) -> timedelta:
        return _seconds(environment, name, default, warnings, least=least)

    standard = Settings()
    return Settings(
        cluster_domain=environment.get("CLUSTER_DOMAIN") or standard.cluster_domain,
        inject_init_container=unless_false("ENABLE_INIT_CONTAINER_INJECTION"),
        inject_probes=unless_false("ENABLE_PROBES_INJECTION"),
        login_shell=if_true("ENABLE_LOGIN_SHELL"),
        deterministic_head_pod_name=if_true("ENABLE_DETERMINISTIC_HEAD_POD_NAME"),
        head_cluster_ip_service=if_true("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE"),
        random_pod_delete=if_true("ENABLE_RANDOM_POD_DELETE"),
        gcs_ft_redis_cleanup=unless_false("ENABLE_GCS_FT_REDIS_CLEANUP"),
        zero_downtime=unless_false("ENABLE_ZERO_DOWNTIME"),
        delete_ray_job_after_finish=if_true("DELETE_RAYJOB_CR_AFTER_JOB_FINISHES"),
        ingress_on_openshift=if_true("USE_INGRESS_ON_OPENSHIFT"),
        cluster_resync=seconds("RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV", standard.cluster_resync),
        job_transition_grace=seconds(
            "RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS",
            standard.job_transition_grace,
            least=0,
        ),
        job_status_check_timeout=seconds(
            "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS", standard.job_status_check_timeout
        ),
        use_kubernetes_proxy=values["use-kubernetes-proxy"],
        operator_pods=_operator_pods(environment.get("OPERATOR_PODS", ""), warnings),
        enable_metrics=values["enable-metrics"],
        batch_scheduler=_batch_scheduler(values),
        cron_replay_missed=values["cron-replay-missed"],
        cron_successful_history=_history("cron-successful-history", values),
        cron_failed_history=_history("cron-failed-history", values),
    )


def _operator_pods(text: str, warnings: list[str]) -> OperatorPods | None:
    if not text:
        return None
    namespace, _, selector = text.partition("/")
    pairs = [one.partition("=") for one in selector.split(",")]
    if not namespace or not all(name and value for name, _, value in pairs):
        warnings.append(f"OPERATOR_PODS={text!r} is not NAMESPACE/LABEL=VALUE,...: not used")
        return None
    return OperatorPods(namespace, {name: value for name, _, value in pairs})


def _seconds(
    environment: Mapping[str, str],
    name: str,
    default: timedelta,
    warnings: list[str],
    *,
    least: int = 1,
) -> timedelta:
    """As KubeRay: what is no whole number of at least `least` counts as not given, with a warning."""
    text = environment.get(name, "")
    if text.isdecimal() and int(text) >= least:
        return timedelta(seconds=int(text))
    if text:
        warnings.append(f"{name}={text!r} is no whole number from {least} up: using {default}")
    return default


def _address(flag: str, values: Mapping[str, Any]) -> Address | None:
    try:
        return Address.parse(values[flag])
    except ValueError as error:
        raise UsageError(f"--{flag}: {error}") from error


def _concurrency(values: Mapping[str, Any]) -> int | None:
    given = values["reconcile-concurrency"] is not None
    return _at_least_one("reconcile-concurrency", values) if given else None


def _at_least_one(flag: str, values: Mapping[str, Any]) -> int:
    if values[flag] < 1:
        raise UsageError(f"--{flag} must be at least 1, not {values[flag]}")
    return int(values[flag])


def _history(flag: str, values: Mapping[str, Any]) -> int | None:
    if values[flag] is not None and values[flag] < 0:
        raise UsageError(f"--{flag} must be at least 0, not {values[flag]}")
    return None if values[flag] is None else int(values[flag])


def _stdout_encoder(
    args: argparse.Namespace, values: Mapping[str, Any]
) -> Literal["json", "console"]:
    if args.zap_encoder:
        return "console" if args.zap_encoder == "console" else "json"
    return "console" if args.zap_devel or values["log-stdout-encoder"] == "console" else "json"


_LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "panic": logging.CRITICAL,
}


def _log_level(args: argparse.Namespace) -> int:
    if args.zap_devel and args.zap_log_level == "info":
        return logging.DEBUG
    level = _LEVELS.get(args.zap_log_level)
    if level is None and args.zap_log_level.isdecimal():  # zap counts verbosity upwards
        level = logging.DEBUG if int(args.zap_log_level) else logging.INFO
    if level is None:
        raise UsageError(f"--zap-log-level: {args.zap_log_level!r} is none of {', '.join(_LEVELS)}")
    return level
