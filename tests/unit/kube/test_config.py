"""Which cluster is meant when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from manta.kube.config import discover, in_cluster, kubeconfig_paths, load
from manta.kube.errors import CredentialsError

CONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://from-file"}}]
"""
HOST = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pod = tmp_path / "serviceaccount"
    pod.mkdir()
    (pod / "token").write_text("t")
    (pod / "ca.crt").write_text("CA")
    (pod / "namespace").write_text("team\n")
    return pod


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return path


def test_inside_a_pod_everything_is_mounted(folder: Path) -> None:
    cluster = in_cluster(HOST, folder=folder)
    assert cluster.server == "https://10.0.0.1:6443"
    assert cluster.user.token_file == folder / "token"
    assert (cluster.ca, cluster.namespace) == (folder / "ca.crt", "team")


def test_without_variables_the_service_has_a_name(folder: Path) -> None:
    assert in_cluster(folder=folder).server == "https://kubernetes.default.svc:443"


def test_an_ipv6_address_gets_its_brackets(folder: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert in_cluster(environment, folder=folder).server == "https://[fd00::1]:443"


def test_outside_a_pod_the_error_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"not inside a cluster: .*token.*kubeconfig"):
        in_cluster(folder=tmp_path)


def test_a_proxy_is_used_inside_a_cluster_too(folder: Path) -> None:
    proxied = in_cluster(HOST | {"HTTPS_PROXY": "http://p:1"}, folder=folder)
    exempt = in_cluster(
        HOST | {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, folder=folder
    )
    assert (proxied.proxy, exempt.proxy) == ("http://p:1", "")


def test_what_is_named_wins_over_the_cluster_around_us(folder: Path, config: Path) -> None:
    assert discover(config, folder=folder).server == "https://from-file"
    from_variable = discover(environment={"KUBECONFIG": str(config)}, folder=folder)
    assert from_variable.server == "https://from-file"


def test_the_cluster_around_us_wins_over_the_home_directory(
    folder: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: config.parent)
    assert discover(environment=HOST, folder=folder).context == "in-cluster"


def test_the_home_directory_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(CONFIG)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert discover(folder=tmp_path / "none").server == "https://from-file"
    assert load().server == "https://from-file"


def test_kubeconfig_may_list_several_files() -> None:
    assert kubeconfig_paths({"KUBECONFIG": "/a::/b"}) == [Path("/a"), Path("/b")]
