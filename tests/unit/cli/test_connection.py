"""Which cluster a command is for, and in which namespace it works: by kubectl's rules."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from manta.api.usage import UsageError
from manta.cli import install, uninstall
from manta.cli.server import connection
from manta.cli.server.connection import (
    add_connection_flags,
    cluster_of,
    namespace_of,
)
from manta.client.connection import NoServerError

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: team
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: team, context: {cluster: c, user: u, namespace: team-a}}
- {name: plain, context: {cluster: c, user: u}}
"""


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_connection_flags(parser, namespace=True)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "namespace"),
    [
        ((), "team-a"),
        (("-n", "mine"), "mine"),
        (("--namespace", "mine"), "mine"),
        (("--context", "plain"), "default"),
    ],
)
def test_it_is_the_one_that_is_named_else_that_of_the_context(
    tmp_path: Path, words: tuple[str, ...], namespace: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    assert namespace_of(parsed("--kubeconfig", str(file), *words)) == namespace


class Machine:
    """A home with whatever kubeconfigs a test puts there; each names a server of its own port."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.plane = home / ".manta"
        self.kube = home / ".kube" / "config"

    def write(self, path: Path, port: int, context: str = "team") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(KUBECONFIG.replace(":1", f":{port}").replace("team", context))
        return path

    def start_plane(self, port: int) -> None:
        self.write(self.plane / "kubeconfig", port)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "MANTA_DIR", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    connection._NOTED.clear()
    return Machine(tmp_path)


def port_of(args: argparse.Namespace) -> int:
    return int(cluster_of(args).server.rpartition(":")[2])


def test_the_users_kubeconfig_wins_over_a_plane_as_with_kubectl(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """U1."""
    machine.start_plane(1)
    machine.write(machine.kube, 2)
    assert port_of(parsed()) == 2
    assert f"--dir {machine.plane} selects the plane" in capsys.readouterr().err


def test_without_any_kubeconfig_the_plane_is_meant(machine: Machine) -> None:
    machine.start_plane(1)
    assert port_of(parsed()) == 1


@pytest.mark.parametrize("verb", [install, uninstall])
def test_installing_never_falls_back_to_the_plane(
    verb: object, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1."""
    machine.start_plane(1)
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers())  # type: ignore[attr-defined]
    args = parser.parse_args([verb.__name__.rpartition(".")[2]])  # type: ignore[attr-defined]
    with pytest.raises(NoServerError, match="--kubeconfig FILE or the variable KUBECONFIG"):
        cluster_of(args)
    monkeypatch.setenv("KUBECONFIG", str(machine.write(machine.home / "prod", 7)))
    assert port_of(args) == 7


def test_a_directory_that_is_named_wins_over_the_environment(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U5."""
    monkeypatch.setenv("KUBECONFIG", str(machine.write(machine.home / "prod", 7)))
    machine.start_plane(1)
    assert port_of(parsed()) == 7
    assert port_of(parsed("--dir", str(machine.plane))) == 1


def test_a_directory_of_the_environment_does_not(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(machine.write(machine.home / "prod", 7)))
    monkeypatch.setenv("MANTA_DIR", str(machine.plane))
    machine.start_plane(1)
    assert port_of(parsed()) == 7


def test_two_servers_at_once_are_refused(machine: Machine) -> None:
    """U5."""
    machine.start_plane(1)
    file = machine.write(machine.home / "prod", 7)
    with pytest.raises(UsageError, match="name two API servers: use only one of them"):
        cluster_of(parsed("--dir", str(machine.plane), "--kubeconfig", str(file)))


def test_a_directory_without_a_plane_is_named_with_its_cure(machine: Machine) -> None:
    machine.write(machine.kube, 2)
    with pytest.raises(UsageError, match=r"--dir .*none: no plane runs there; start it with"):
        cluster_of(parsed("--dir", str(machine.home / "none")))


def test_a_list_of_kubeconfigs_is_merged(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine.write(machine.home / "a", 7)
    second = machine.write(machine.home / "b", 8, "other")
    missing = machine.home / "missing"
    monkeypatch.setenv("KUBECONFIG", f"{first}:{missing}:{second}")
    assert cluster_of(parsed()).context == "team"
    assert cluster_of(parsed("--context", "other")).context == "other"


def test_inside_a_pod_its_service_account_is_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1: as kubectl, after the kubeconfig files and before the plane."""
    machine.start_plane(1)
    account = machine.home / "account"
    account.mkdir()
    (account / "token").write_text("t")
    monkeypatch.setattr("manta.kube.config.SERVICE_ACCOUNT", account)
    monkeypatch.setattr("manta.kube.config.in_cluster.__kwdefaults__", {"folder": account})
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert cluster_of(parsed()).context == "in-cluster"
    machine.write(machine.kube, 2)
    assert port_of(parsed()) == 2


def test_a_machine_without_any_server_is_reported_what_to_do(machine: Machine) -> None:
    with pytest.raises(NoServerError, match="or start a plane on this machine with `manta up`"):
        cluster_of(parsed())
    assert namespace_of(parsed()) == "default"
