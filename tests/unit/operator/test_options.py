"""Flags, environment, gates and configuration file of `manta operator`."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from manta.api.resources import PODS
from manta.api.usage import UsageError
from manta.httpserver.address import Address
from manta.kube.client import Client
from manta.kube.rate_limiter import AdaptiveRateLimiter, TokenBucket
from manta.kube.transport import Response
from manta.operator.feature_gates import GATES, parse_feature_gates
from manta.operator.option_table import FLAGS, VARIABLES
from manta.operator.options import Options, add_flags, options_from
from manta.operator.process import rate_limiter
from manta.rules.settings import FeatureGates, Settings
from support.faults import everything
from support.virtual import faulty, virtual_plane, virtually


def read(*flags: str, environment: Mapping[str, str] | None = None) -> Options:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return options_from(parser.parse_args(flags), environment or {})


def config(folder: Path, text: str) -> str:
    path = folder / "config.yaml"
    path.write_text(text)
    return f"--config={path}"


def test_without_a_word_the_defaults_hold() -> None:
    options = read()
    assert options.settings == Settings()
    assert options.metrics == Address(None, 8080)
    assert options.probes == Address(None, 8082)
    assert options.leader_election
    assert options.namespaces == ()
    assert (options.qps, options.burst, options.concurrency) == (0, 200, None)


def test_flags_are_written_as_in_kuberays_charts() -> None:
    options = read(
        "--enable-leader-election=false",
        "--use-kubernetes-proxy",
        "--watch-namespace=a, b",
        "--reconcile-concurrency",
        "3",
        "--metrics-addr=0",
        "--batch-scheduler=",
        "--enable-batch-scheduler=false",
        "--log-stdout-encoder=console",
        "--forced-cluster-upgrade",
    )
    assert not options.leader_election
    assert options.settings.use_kubernetes_proxy
    assert options.namespaces == ("a", "b")
    assert options.concurrency == 3
    assert options.metrics is None
    assert options.stdout_encoder == "console"


@pytest.mark.parametrize(
    ("flag", "named"),
    [("--batch-scheduler=yunikorn", "yunikorn"), ("--enable-batch-scheduler", "volcano")],
)
def test_a_gang_scheduler_is_chosen_by_name(flag: str, named: str) -> None:
    assert read(flag).settings.batch_scheduler == named


def test_two_gang_schedulers_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="leave out --enable-batch-scheduler"):
        read("--enable-batch-scheduler", "--batch-scheduler=yunikorn")


@virtually
async def test_the_rate_is_halved_by_a_429_unless_a_number_fixes_it() -> None:
    adaptive, fixed = rate_limiter(read()), rate_limiter(read("--qps=7", "--burst=9"))
    assert isinstance(adaptive, AdaptiveRateLimiter)
    assert isinstance(fixed, TokenBucket)
    assert rate_limiter(read("--qps=-1")) is None
    assert adaptive.rate == math.inf
    for _ in range(80):
        await adaptive.acquire()
    async with virtual_plane() as plane:
        faults = faulty(plane)
        faults.answer(everything, Response(429, {"retry-after": "0"}, b""), times=1)
        await Client(faults, limiter=adaptive).list(PODS)
    assert 40 <= adaptive.rate < 50, "80 were sent in this second; it has grown a little since"


@pytest.mark.parametrize("flag", ["--enable-batch-scheduler", "--batch-scheduler=yunikorn"])
def test_kubernetes_and_a_gang_scheduler_at_once_are_refused(flag: str) -> None:
    with pytest.raises(UsageError, match=r"KubernetesWAS=true and --batch-scheduler=.* leave one"):
        read(flag, "--feature-gates=KubernetesWAS=true")


@pytest.mark.parametrize(
    "flags",
    [
        ["--no-such-flag"],
        ["--enable-metrics=maybe"],
        ["--log-file-encoder=xml"],
        ["--reconcile-concurrency=many"],
        ["--cron-failed-history=-1"],
    ],
)
def test_a_flag_that_cannot_be_meant_exits_with_2(flags: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(*flags)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--feature-gates=NoSuchGate=true", "NoSuchGate"),
        ("--feature-gates=RayCronJob=perhaps", "RayCronJob"),
        ("--metrics-addr=nowhere", "metrics-addr"),
        ("--reconcile-concurrency=0", "reconcile-concurrency"),
        ("--zap-log-level=loud", "loud"),
        ("--config=/no/such/file", "/no/such/file"),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(flag: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(flag)


def test_gates_are_switched_by_their_kuberay_names() -> None:
    assert parse_feature_gates("") == FeatureGates()
    gates = parse_feature_gates("RayCronJob=false, RayClusterMTLS=true,KubernetesWAS=TRUE")
    assert not gates.ray_cron_job
    assert gates.ray_cluster_mtls
    assert gates.kubernetes_was


def test_every_gate_has_a_name() -> None:
    assert set(GATES.values()) == set(FeatureGates.__dataclass_fields__)


def test_the_environment_speaks_kuberays_words() -> None:
    settings = read(
        environment={
            "ENABLE_INIT_CONTAINER_INJECTION": "false",
            "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE": "True",
            "ENABLE_GCS_FT_REDIS_CLEANUP": "nonsense",
            "CLUSTER_DOMAIN": "example.local",
            "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": "60",
        }
    ).settings
    assert not settings.inject_init_container
    assert settings.inject_probes
    assert settings.head_cluster_ip_service
    assert settings.gcs_ft_redis_cleanup  # on unless it says false
    assert settings.cluster_domain == "example.local"
    assert settings.cluster_resync == timedelta(seconds=60)


def test_a_bad_number_in_the_environment_is_reported_and_not_used() -> None:
    options = read(environment={"RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS": "-5"})
    assert options.settings.job_status_check_timeout == timedelta(seconds=300)
    assert any("RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS" in one for one in options.warnings)


def test_a_configuration_replaces_the_flags_but_gates_and_encoders(tmp_path: Path) -> None:
    options = read(
        config(
            tmp_path,
            "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n"
            "watchNamespace: a,b\nqps: 7\nenableLeaderElection: false\n"
            "headSidecarContainers: [{name: side}]\ndefaultPodLabels: {team: x}\n",
        ),
        "--watch-namespace=ignored",
        "--feature-gates=RayCronJob=false",
        "--log-stdout-encoder=console",
    )
    assert options.namespaces == ("a", "b")
    assert options.qps == 7
    assert not options.leader_election
    assert options.settings.head_sidecar_containers == ({"name": "side"},)
    assert options.settings.default_pod_labels == {"team": "x"}
    assert not options.settings.gates.ray_cron_job
    assert options.stdout_encoder == "console"
    assert any("--watch-namespace" in one for one in options.warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("watchNamespaces: a", "watchNamespaces"),
        ("qps: many", "qps"),
        ("burst: true", "burst"),
        ("- a list", "YAML object"),
        ("{broken", "not valid YAML"),
        ("apiVersion: v1\nkind: Pod", "v1 Pod"),
        ("batchScheduler: kueue", "'kueue' is none of volcano, yunikorn"),
        ("cronSuccessfulHistory: -1", "cron-successful-history must be at least 0"),
        ("cronFailedHistory: -1", "cron-failed-history must be at least 0"),
        ("reconcileConcurrency: 0", "reconcile-concurrency"),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(config(tmp_path, text))


def test_null_in_a_configuration_means_not_given(tmp_path: Path) -> None:
    text = "watchNamespace: null\nqps: null\ncronFailedHistory: null\ndefaultPodLabels:\n"
    assert read(config(tmp_path, text)) == read()


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ([], logging.INFO),
        (["--zap-log-level=debug"], logging.DEBUG),
        (["--zap-log-level=3"], logging.DEBUG),
        (["--zap-log-level=error"], logging.ERROR),
        (["--zap-devel"], logging.DEBUG),
    ],
)
def test_zaps_levels_are_understood(flags: list[str], level: int) -> None:
    assert read(*flags).log_level == level


def test_a_grace_period_of_zero_is_obeyed() -> None:
    """S14."""
    name = "RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS"
    options = read(environment={name: "0"})
    assert options.settings.job_transition_grace.total_seconds() == 0
    assert options.warnings == ()
    timeout = read(environment={"RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS": "0"})
    assert timeout.settings.job_status_check_timeout == Settings().job_status_check_timeout
    assert len(timeout.warnings) == 1


def test_the_operator_learns_which_pods_are_its_own() -> None:
    """R8."""
    reported = "manta-system/app.kubernetes.io/instance=one,app.kubernetes.io/name=manta"
    options = read(environment={"OPERATOR_PODS": reported})
    pods = options.settings.operator_pods
    assert pods is not None
    assert pods.namespace == "manta-system"
    assert pods.labels == {"app.kubernetes.io/instance": "one", "app.kubernetes.io/name": "manta"}
    assert options.warnings == ()
    wrong = read(environment={"OPERATOR_PODS": "nonsense"})
    assert wrong.settings.operator_pods is None
    assert "OPERATOR_PODS='nonsense'" in wrong.warnings[0]


def test_every_row_of_the_tables_sets_a_field_that_exists() -> None:
    settings, options = Settings.__dataclass_fields__, Options.__dataclass_fields__
    assert {one.setting for one in (*FLAGS, *VARIABLES) if one.setting} <= set(settings)
    assert {one.option for one in FLAGS if one.option} <= set(options)
