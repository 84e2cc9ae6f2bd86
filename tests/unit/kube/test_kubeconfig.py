"""kubeconfig files: what they mean, and what is said about broken ones."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from manta.api.documents.writer import to_yaml
from manta.kube.cluster import Cluster
from manta.kube.errors import CredentialsError
from manta.kube.kubeconfig import load_files


def b64(text: bytes) -> str:
    return base64.b64encode(text).decode()


def config(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "x"
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster or {"server": "https://api:6443"}}],
        "users": [{"name": name, "user": user or {}}],
    }


def write(path: Path, tree: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tree if isinstance(tree, str) else to_yaml(tree))
    return path


def load(path: Path, context: str | None = None, **environment: str) -> Cluster:
    return load_files([path], context, environment)


# ── what it means ────────────────────────────────────────────────────────────────────────────
def test_all_fields_of_a_cluster_arrive(tmp_path: Path) -> None:
    tree = config(
        {
            "server": "https://api:6443/prefix/",
            "certificate-authority-data": b64(b"CA"),
            "tls-server-name": "kubernetes",
            "proxy-url": "http://proxy:3128",
        }
    )
    tree["contexts"][0]["context"]["namespace"] = "team"
    cluster = load(write(tmp_path / "config", tree))
    assert cluster.server == "https://api:6443/prefix"
    assert (cluster.ca, cluster.server_name) == (b"CA", "kubernetes")
    assert (cluster.proxy, cluster.namespace, cluster.context) == ("http://proxy:3128", "team", "x")


def test_data_wins_over_files_and_files_lie_beside_the_kubeconfig(tmp_path: Path) -> None:
    user = {
        "client-certificate": "certs/me.crt",
        "client-certificate-data": b64(b"CERT"),
        "client-key": "certs/me.key",
    }
    made = load(write(tmp_path / "config", config(user=user))).user
    assert made.certificate == b"CERT"
    assert made.key == tmp_path / "certs/me.key"


def test_another_context_can_be_named(tmp_path: Path) -> None:
    tree = config()
    tree["contexts"].append({"name": "y", "context": {"cluster": "x"}})
    cluster = load(write(tmp_path / "config", tree), "y")
    assert cluster.context == "y"
    assert cluster.user.token == ""


def test_in_a_list_of_files_the_first_that_names_a_thing_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "one/config", config(user={"tokenFile": "t"}))
    second = config({"server": "https://other:6443"}, {"token": "other"}, name="y")
    second["users"].append({"name": "x", "user": {"token": "shadowed"}})
    paths = [tmp_path / "missing", first, write(tmp_path / "two/config", second)]
    assert load_files(paths, None, {}).user.token_file == tmp_path / "one/t"
    assert load_files(paths, "y", {}).server == "https://other:6443"


def test_a_proxy_of_the_environment_is_used_where_the_file_names_none(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config())
    assert load(path, HTTPS_PROXY="http://env:1").proxy == "http://env:1"
    assert load(path, HTTPS_PROXY="http://env:1", NO_PROXY="api").proxy == ""


def test_nulls_mean_not_given(tmp_path: Path) -> None:
    tree = config(user={"token": None, "exec": None})
    tree["contexts"][0]["context"]["namespace"] = None
    assert load(write(tmp_path / "config", tree)).namespace == "default"


def test_impersonation_is_sent_not_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config(user={"token": "t", "as": "bob", "as-uid": "7"}))
    assert load(path).user.headers == {"impersonate-user": "bob", "impersonate-uid": "7"}


def test_json_is_a_kubeconfig_too(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        '{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],'
        '"clusters":[{"name":"c","cluster":{"server":"http://localhost:8080"}}]}'
    )
    assert load(path).server == "http://localhost:8080"


def test_an_exec_plugin_arrives_with_everything_it_needs(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {
        "server": "https://api:6443",
        "certificate-authority-data": b64(b"CA"),
        "extensions": [extension],
    }
    exec_ = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["--now"],
        "env": [{"name": "A", "value": "1"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
        "installHint": "get it",
    }
    plugin = load(
        write(tmp_path / "config", config(cluster, {"exec": exec_})), PATH="/bin"
    ).user.plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/login")
    assert (plugin.args, plugin.env, plugin.environment) == (
        ("--now",),
        {"A": "1"},
        {"PATH": "/bin"},
    )
    assert plugin.cluster_info == {
        "server": "https://api:6443",
        "certificate-authority-data": b64(b"CA"),
        "config": {"audience": "a"},
    }


def test_no_secret_shows_in_the_repr(tmp_path: Path) -> None:
    user = {
        "token": "SECRET",
        "client-certificate-data": b64(b"C"),
        "client-key-data": b64(b"SECRET"),
    }
    assert "SECRET" not in repr(load(write(tmp_path / "config", config(user=user))))


# ── what is said about broken ones ───────────────────────────────────────────────────────────
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}


def _without_context() -> dict[str, Any]:
    return config() | {"current-context": ""}


def _dangling(field: str) -> dict[str, Any]:
    tree = config()
    tree["contexts"][0]["context"][field] = "gone"
    return tree


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("a: [", "is not YAML: .*line 2"),
        ("- a", "Expected `object`, got `array`: this is not a kubeconfig"),
        (config({"server": 5}), r"clusters\[0\].cluster.server is 5: Expected `str`.*quotes"),
        (config(user={"token": 123}), r"users\[0\].user.token: Expected `str`.*quotes"),
        (
            config({"server": "api:6443"}),
            "server of cluster 'x' .* is 'api:6443': it must be a URL",
        ),
        (config({"server": "https://a:99999"}), "is 'https://a:99999': it must be a URL"),
        (config({"server": "https://a:http"}), "is 'https://a:http': it must be a URL"),
        (
            config({}) | {"clusters": [{"name": "x", "cluster": {}}]},
            "server of cluster 'x' .* is ''",
        ),
        (_without_context(), "no current-context: name one of 'x'"),
        (_dangling("cluster"), "cluster of context 'x' .* is 'gone', which does not exist: .*'x'"),
        (_dangling("user"), "user of context 'x' .* is 'gone', which does not exist: .*'x'"),
        (
            config(user={"client-certificate-data": "%%", "client-key": "k"}),
            "user 'x' .* not base64",
        ),
        (config(user={"client-certificate": "c"}), "user 'x' .* has no client-key"),
        (
            config(
                {
                    "server": "https://a",
                    "certificate-authority": "f",
                    "insecure-skip-tls-verify": True,
                }
            ),
            "both a certificate-authority and insecure-skip-tls-verify",
        ),
        (
            config({"server": "https://a", "proxy-url": "socks5://p"}),
            "proxy-url of cluster 'x' .*SOCKS",
        ),
        (config(user={"username": "u", "password": "p"}), "username and password.*use a token"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider 'gcp'.*exec plugin"),
        (
            config(user={"exec": EXEC | {"apiVersion": "v1alpha1"}}),
            "apiVersion 'v1alpha1': use client",
        ),
        (config(user={"exec": EXEC | {"command": ""}}), "exec of user 'x' .* has no command"),
    ],
)
def test_the_error_names_the_file_the_field_and_the_cure(
    tmp_path: Path, tree: object, said: str
) -> None:
    path = write(tmp_path / "config", tree)
    with pytest.raises(CredentialsError, match=said) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_missing_context_lists_those_that_exist(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config())
    with pytest.raises(CredentialsError, match=f"context of {path} is 'prod', .*there are 'x'"):
        load(path, "prod")


def test_a_missing_file_says_where_else_to_look(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="does not exist: name another with --kubeconfig"):
        load(tmp_path / "none")
    with pytest.raises(CredentialsError, match="none of these"):
        load_files([tmp_path / "a", tmp_path / "b"], None, {})


def test_a_secret_never_shows_in_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config(user={"token": 987654321}))
    with pytest.raises(CredentialsError) as caught:
        load(path)
    assert "987654321" not in str(caught.value)
