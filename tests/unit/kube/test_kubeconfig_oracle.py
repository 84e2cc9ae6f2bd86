"""The same files through the official client: what it makes of them, we make of them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_kube_config

from manta.kube.cluster import Cluster, Pem
from manta.kube.config import load
from manta.kube.credentials import FileCredentialProvider
from manta.kube.errors import CredentialsError
from support.certificates import Authority

CA = Authority()
ME = CA.issue("me")


@dataclass(frozen=True)
class Meaning:
    """What matters of either client's view of a kubeconfig."""

    host: str
    verify: bool
    server_name: str
    proxy: str
    ca: bytes
    certificate: bytes
    key: bytes
    authorization: str


def official(path: Path | str, context: str | None) -> Meaning:
    made = Configuration()
    load_kube_config(str(path), context, made)
    return Meaning(
        host=made.host,
        verify=made.verify_ssl,
        server_name=made.tls_server_name or "",
        proxy=made.proxy or "",
        ca=_content(made.ssl_ca_cert),
        certificate=_content(made.cert_file),
        key=_content(made.key_file),
        authorization=made.api_key.get("BearerToken", ""),
    )


async def ours(paths: Path | list[Path], context: str | None) -> Meaning:
    cluster = load(paths, context)
    credential = await FileCredentialProvider(cluster.user).credential()
    encrypted = cluster.server.startswith("https:")
    return Meaning(
        host=cluster.server,
        verify=not cluster.insecure,
        server_name=cluster.server_name,
        proxy=cluster.proxy,
        ca=_pem(cluster),
        # Over plain HTTP nobody shows a certificate.
        certificate=credential.certificate if encrypted else b"",
        key=credential.key if encrypted else b"",
        authorization=credential.headers.get("authorization", ""),
    )


def _content(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""


def _pem(cluster: Cluster) -> bytes:
    ca: Pem | None = cluster.ca
    return ca.read_bytes() if isinstance(ca, Path) else ca or b""


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


CLUSTERS: dict[str, dict[str, Any]] = {
    "plain": {"server": "http://127.0.0.1:8080"},
    "file": {"server": "https://api.example.com:6443", "certificate-authority": "ca.crt"},
    "data": {"server": "https://10.0.0.1", "certificate-authority-data": b64(CA.pem)},
    "slash": {"server": "https://api:6443/prefix/", "certificate-authority": "ca.crt"},
    "insecure": {"server": "https://api:6443", "insecure-skip-tls-verify": True},
    "named": {"server": "https://1.2.3.4", "tls-server-name": "kubernetes"},
    "proxied": {"server": "https://1.2.3.4", "proxy-url": "http://proxy:3128"},
}
USERS: dict[str, dict[str, Any]] = {
    "nobody": {},
    "token": {"token": "abc.def"},
    "token-file": {"tokenFile": "token"},
    "certificate-files": {"client-certificate": "me.crt", "client-key": "me.key"},
    "certificate-data": {
        "client-certificate-data": b64(ME.certificate),
        "client-key-data": b64(ME.key),
    },
    "both": {"token": "abc", "client-certificate": "me.crt", "client-key": "me.key"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_bytes(CA.pem)
    (tmp_path / "me.crt").write_bytes(ME.certificate)
    (tmp_path / "me.key").write_bytes(ME.key)
    (tmp_path / "token").write_text("from-file")
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "data-token",
        "clusters": [{"name": name, "cluster": each} for name, each in CLUSTERS.items()],
        "users": [{"name": name, "user": each} for name, each in USERS.items()],
        "contexts": [
            {"name": f"{cluster}-{user}", "context": {"cluster": cluster, "user": user}}
            for cluster in CLUSTERS
            for user in USERS
        ],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(tree))
    return tmp_path


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_every_context_means_the_same(folder: Path, cluster: str, user: str) -> None:
    context = f"{cluster}-{user}"
    assert await ours(folder / "config", context) == official(folder / "config", context)


async def test_the_current_context_means_the_same(folder: Path) -> None:
    assert await ours(folder / "config", None) == official(folder / "config", None)


async def test_merged_files_mean_the_same(folder: Path) -> None:
    extra = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "file-nobody",
        "clusters": [{"name": "file", "cluster": {"server": "https://first"}}],
        "users": [],
        "contexts": [],
    }
    first = folder / "first/config"
    first.parent.mkdir()
    first.write_text(yaml.safe_dump(extra))
    paths = [first, folder / "config"]
    joined = ":".join(str(path) for path in paths)
    assert await ours(paths, "file-nobody") == official(joined, "file-nobody")
    assert await ours(paths, "data-token-file") == official(joined, "data-token-file")


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "current-context: x\n",
        "current-context: x\ncontexts: []\nclusters: []\nusers: []\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: []\n",
    ],
)
def test_what_it_refuses_we_refuse(tmp_path: Path, broken: str) -> None:
    (tmp_path / "config").write_text(broken)
    with pytest.raises(ConfigException):
        official(tmp_path / "config", None)
    with pytest.raises(CredentialsError):
        load(tmp_path / "config")


# Where we follow kubectl and not the official Python client, which takes the last current-context
# and prefers a token to a token file.
def test_the_first_current_context_counts_as_in_kubectl(folder: Path) -> None:
    first = folder / "first"
    first.write_text("current-context: file-nobody\n")
    assert load([first, folder / "config"]).context == "file-nobody"


def test_a_token_file_wins_over_a_token_as_in_kubectl(tmp_path: Path) -> None:
    tree = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://api"}}],
        "users": [{"name": "x", "user": {"token": "old", "tokenFile": "fresh"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(tree))
    assert load(tmp_path / "config").user.token_file == tmp_path / "fresh"
