"""TLS contexts: trusted CAs, client certificates, and errors about broken files."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from manta.kube.cluster import Cluster, User
from manta.kube.errors import CredentialsError
from manta.kube.tls import client_context, read_pem
from support.certificates import Authority

CA = Authority()
ME = CA.issue("me")


def cluster(**fields: Any) -> Cluster:
    return Cluster("https://api", User("user 'u'"), origin="cluster 'c'", **fields)


def test_a_given_authority_is_the_only_one_trusted(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(CA.pem + Authority("second").pem)
    assert client_context(cluster(ca=CA.pem)).cert_store_stats()["x509_ca"] == 1
    assert client_context(cluster(ca=file)).cert_store_stats()["x509_ca"] == 2


def test_the_server_is_checked_unless_disabled() -> None:
    strict, lax = client_context(cluster(ca=CA.pem)), client_context(cluster(insecure=True))
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)


def test_old_protocols_are_not_spoken() -> None:
    assert client_context(cluster(ca=CA.pem)).minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_key_pair_is_taken_from_memory_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client_context(cluster(ca=CA.pem), ME.certificate, ME.key)
    assert list(tmp_path.iterdir()) == []


def test_an_authority_that_is_none_names_its_cluster() -> None:
    with pytest.raises(CredentialsError, match="certificate-authority of cluster 'c' is not a PEM"):
        client_context(cluster(ca=b"nonsense"))
    with pytest.raises(CredentialsError, match="certificate-authority of cluster 'c'"):
        client_context(cluster(ca="größe".encode()))


def test_a_pair_that_does_not_match_names_its_user() -> None:
    other = CA.issue("other")
    with pytest.raises(CredentialsError, match="client-key of user 'u' are not a PEM pair"):
        client_context(cluster(ca=CA.pem), ME.certificate, other.key)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"client-key of user 'u': .*none: No such file"):
        read_pem(tmp_path / "none", "client-key of user 'u'")
