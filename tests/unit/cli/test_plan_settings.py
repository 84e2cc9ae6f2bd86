"""Whose settings a plan is made with, where no server is needed."""

from __future__ import annotations

import argparse

import pytest

from manta.api.usage import UsageError
from manta.cli.server.operator_settings import add_settings_flags, origin_for
from manta.operator.configuration import parse_configuration
from manta.operator.deployed_options import Origin, Unread, parse_command_line
from manta.operator.options import is_given


def _args(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        ["--feature-gates", "RayClusterMTLS=true"],
        ["--config", "x.yaml"],
        ["--batch-scheduler=volcano"],
        ["--use-kubernetes-proxy=false"],
    ],
)
def test_any_flag_of_the_operator_counts_as_given(words: list[str]) -> None:
    assert is_given(_args(*words))
    assert not is_given(_args())


def test_an_operators_command_line_and_environment_become_its_settings() -> None:
    words = ["--feature-gates=RayClusterNetworkPolicy=true", "--batch-scheduler=volcano"]
    words += ["--kubeconfig", "/plane/operator.kubeconfig", "--flag-of-a-newer-operator=1"]
    settings = parse_command_line(words, {"CLUSTER_DOMAIN": "example.test"}).settings
    assert settings.gates.ray_cluster_network_policy
    assert settings.batch_scheduler == "volcano"
    assert settings.cluster_domain == "example.test"


def test_a_configuration_replaces_the_flags_as_it_does_in_the_operator() -> None:
    text = "{batchScheduler: yunikorn, watchNamespace: team, defaultPodLabels: {a: b}}"
    words = ["--config=/etc/manta/config.yaml", "--batch-scheduler=volcano"]
    options = parse_command_line(words, {}, parse_configuration(text, "here"))
    assert options.settings.batch_scheduler == "yunikorn"
    assert options.settings.default_pod_labels == {"a": "b"}
    assert options.namespaces == ("team",)


def test_a_command_line_that_cannot_be_meant_is_said() -> None:
    with pytest.raises(UsageError, match=r"cannot parse.*--enable-metrics"):
        parse_command_line(["--enable-metrics=perhaps"], {})


def test_each_namespace_gets_the_settings_of_its_own_operator() -> None:
    one, other, rest = (
        Origin(name, parse_command_line([f"--watch-namespace={spaces}"], {}))
        for name, spaces in (("one", "a,b"), ("other", "c"), ("rest", ""))
    )
    assert origin_for([one, other, rest], "b") is one
    assert origin_for([one, other, rest], "c") is other
    assert origin_for([one, other, rest], "d") is rest
    assert origin_for([one], "d") is one  # what was given is meant for whatever is asked


def test_an_operator_that_cannot_be_read_is_in_the_way_only_where_no_other_is() -> None:
    team = Origin("team", parse_command_line(["--watch-namespace=team"], {}))
    rest = Origin("the defaults", parse_command_line([], {}))
    found: list[Origin | Unread] = [Unread("no file"), team, rest]
    assert origin_for(found, "team") is team
    with pytest.raises(UsageError, match="no file"):
        origin_for(found, "elsewhere")
