"""The plane's authority: made once, used again, renewed in time."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509

from manta.localplane.certificates import LEAF_LIFE, RENEW_BEFORE, Authority

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


def leaf(directory, name="server"):
    return (directory / f"{name}.crt").read_bytes()


def names_of(pem):
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return {str(one.value) for one in found.value}


def test_what_is_there_is_used_again(tmp_path) -> None:
    first = Authority(tmp_path, NOW)
    first.server_context()
    before, authority = leaf(tmp_path), first.certificate
    again = Authority(tmp_path, NOW + timedelta(days=1))
    again.server_context()
    assert (leaf(tmp_path), again.certificate) == (before, authority)


def test_the_server_is_known_by_all_its_names(tmp_path) -> None:
    Authority(tmp_path, NOW).server_context(["192.0.2.7", "plane.example"])
    assert {
        "localhost",
        "127.0.0.1",
        "kubernetes.default.svc",
        "10.96.0.1",
        "192.0.2.7",
        "plane.example",
    } <= names_of(leaf(tmp_path))


def test_new_names_and_near_ends_make_a_new_certificate(tmp_path) -> None:
    Authority(tmp_path, NOW).server_context()
    first, authority = leaf(tmp_path), Authority(tmp_path, NOW).certificate
    Authority(tmp_path, NOW).server_context(["other"])
    second = leaf(tmp_path)
    assert second != first
    late = NOW + LEAF_LIFE - RENEW_BEFORE + timedelta(seconds=1)
    Authority(tmp_path, late).server_context(["other"])
    assert leaf(tmp_path) != second
    assert Authority(tmp_path, late).certificate == authority


def test_clients_are_certified_with_name_and_groups(tmp_path) -> None:
    authority = Authority(tmp_path, NOW)
    pair = authority.client("admin", "admin", ["system:masters", "ops"])
    subject = x509.load_pem_x509_certificate(pair.certificate.encode()).subject
    assert subject.rfc4514_string() == "CN=admin,O=ops,O=system:masters"
    assert authority.client("admin", "admin", ["system:masters", "ops"]) == pair
    assert authority.client("admin", "someone else") != pair
    assert authority.issue_client("x") != authority.issue_client("x")


def test_secrets_are_their_owners_alone(tmp_path) -> None:
    authority = Authority(tmp_path / "pki", NOW)
    authority.server_context()
    authority.token_key()
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "pki").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path.name


def test_client_certificates_are_accepted_but_not_demanded(tmp_path) -> None:
    context = Authority(tmp_path, NOW).server_context()
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
