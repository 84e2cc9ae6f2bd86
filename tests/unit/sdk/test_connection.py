"""Which server a client of the SDK is for: by arguments, else by kubectl's rules, else `manta up`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import manta
from manta.kube import config
from manta.kube.transport import HttpTransport
from manta.sdk.session import choose_cluster

KUBECONFIG = """
current-context: team
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: team, context: {cluster: c, user: u, namespace: team-a}}
- {name: plain, context: {cluster: c, user: u}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "MANTA_DIR", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(path: Path, port: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(KUBECONFIG.replace(":1", f":{port}"))
    return path


def server() -> str:
    return choose_cluster().server


def test_without_arguments_the_first_that_exists_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(manta.NoServerError, match=r"give kubeconfig=, .* or start a plane"):
        choose_cluster()
    write(home / ".manta" / "kubeconfig", 10)
    assert server() == "https://127.0.0.1:10"
    account = home / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("t")
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", account)
    monkeypatch.setattr(config.in_cluster, "__kwdefaults__", {"folder": account})
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert server() == "https://10.0.0.1:443"
    write(home / ".kube" / "config", 12)
    assert server() == "https://127.0.0.1:12"
    monkeypatch.setenv("KUBECONFIG", str(write(home / "named", 13)))
    assert server() == "https://127.0.0.1:13"
    write(home / "plane" / "kubeconfig", 14)
    assert choose_cluster(plane=home / "plane").server == "https://127.0.0.1:14"
    assert choose_cluster(kubeconfig=str(write(home / "x", 15))).server == "https://127.0.0.1:15"


def test_the_plane_of_manta_up_may_be_named_by_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "elsewhere" / "kubeconfig", 20)
    monkeypatch.setenv("MANTA_DIR", str(home / "elsewhere"))
    assert server() == "https://127.0.0.1:20"


def test_a_server_and_a_token_are_enough(home: Path) -> None:
    cluster = choose_cluster(server="https://10.0.0.1:6443/", token="secret", ca=b"PEM")
    assert (cluster.server, cluster.user.token, cluster.ca) == (
        "https://10.0.0.1:6443",
        "secret",
        b"PEM",
    )
    assert "secret" not in repr(cluster)
    assert choose_cluster(server="https://x", ca="~/ca.crt").ca == home / "ca.crt"


def test_a_token_alone_replaces_the_user_of_the_kubeconfig(home: Path) -> None:
    cluster = choose_cluster(kubeconfig=write(home / "x"), token="mine")
    assert (cluster.server, cluster.user.token) == ("https://127.0.0.1:1", "mine")


def test_the_namespace_is_the_named_one_else_that_of_the_context(home: Path) -> None:
    file = write(home / "x")
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "team-a"),
        ({"context": "plain"}, "default"),
        ({"namespace": "mine"}, "mine"),
    )
    for options, namespace in cases:
        ray = manta.Client(kubeconfig=file, **options)
        assert ray.namespace == namespace
        ray.close()


def test_wrong_arguments_name_field_and_cure(home: Path) -> None:
    for options, message in (
        ({"server": "10.0.0.1"}, "server='10.0.0.1': must be a URL"),
        ({"plane": home / "no"}, "plane=.*no plane runs there; start it with `manta up --dir"),
        ({"ca": b"PEM"}, r"ca='\.\.\.': give server= beside it"),
        ({"insecure": True}, "insecure=True: give server= beside it"),
    ):
        with pytest.raises(manta.InvalidValue, match=message):
            manta.Client(**options)
    with pytest.raises(manta.CredentialsError, match="nowhere"):
        manta.Client(kubeconfig=home / "nowhere")
    with pytest.raises(manta.CredentialsError, match="'other', which does not exist"):
        manta.Client(kubeconfig=write(home / "x"), context="other")


async def test_a_client_is_made_outside_of_any_loop_and_used_inside(home: Path) -> None:
    ray = manta.AsyncClient(kubeconfig=write(home / "x"))
    assert isinstance(ray._session.kube.transport, HttpTransport)
    async with ray:
        with pytest.raises(manta.Unreachable):
            await ray.jobs.list()
    assert os.environ["HOME"] == str(home)
