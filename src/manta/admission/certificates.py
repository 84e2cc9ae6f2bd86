"""The CA and the server certificate of the webhook, and when they must be renewed.

A renewal takes two steps, so that the API server always trusts the certificate: first a new CA is
published beside the old one, then the server certificate is signed with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from manta.runtime.x509 import (
    alternative_names,
    certificate_builder,
    new_key,
    pem,
    pem_key,
    subject_name,
)

AUTHORITY_LIFETIME = timedelta(days=5 * 365)
LEAF_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Chain:
    """The content of the Secret, as PEM."""

    authorities: str
    """All trusted CAs, the newest first."""
    authority_key: str
    """The key of the newest CA."""
    certificate: str
    key: str


class InvalidChain(ValueError):  # noqa: N818  named by what it is
    """The content of the Secret is not usable."""


def next_chain(chain: Chain | None, names: Sequence[str], now: datetime) -> Chain | None:
    """The chain after the next step; None if none is needed. Raises InvalidChain."""
    if chain is None:
        authority, key = _new_authority(now)
        return _with_leaf(Chain(authority, key, "", ""), names, now)
    try:
        authorities = x509.load_pem_x509_certificates(chain.authorities.encode())
        leaf = x509.load_pem_x509_certificate(chain.certificate.encode())
        _check_key(authorities[0], chain.authority_key)
        _check_key(leaf, chain.key)
        if _is_due(authorities[0], AUTHORITY_LIFETIME, now):
            return _with_authority(chain, now)
        if not _is_valid(leaf, authorities[0], names, now):
            return _with_leaf(chain, names, now)
    except (ValueError, IndexError) as error:
        raise InvalidChain(str(error)) from error
    alive = [one for one in authorities if one.not_valid_after_utc > now]
    if len(alive) < len(authorities):
        return replace(chain, authorities="".join(map(pem, alive)))
    return None


def _check_key(certificate: x509.Certificate, key: str) -> None:
    """Raise ValueError if the key is not that of the certificate."""
    found: Any = serialization.load_pem_private_key(key.encode(), password=None)
    if found.public_key() != certificate.public_key():
        raise ValueError("a key is not that of its certificate")


def _is_due(certificate: x509.Certificate, life: timedelta, now: datetime) -> bool:
    """Whether less than a third of its lifetime is left."""
    return certificate.not_valid_after_utc - life / 3 < now


def _is_valid(
    leaf: x509.Certificate, authority: x509.Certificate, names: Sequence[str], now: datetime
) -> bool:
    if _is_due(leaf, LEAF_LIFETIME, now):
        return False
    try:
        leaf.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001  many types of errors
        return False
    shown = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return shown == alternative_names(names)


def _with_authority(chain: Chain, now: datetime) -> Chain:
    authority, key = _new_authority(now)
    return replace(chain, authorities=authority + chain.authorities, authority_key=key)


def _with_leaf(chain: Chain, names: Sequence[str], now: datetime) -> Chain:
    authority = x509.load_pem_x509_certificates(chain.authorities.encode())[0]
    signer: Any = serialization.load_pem_private_key(chain.authority_key.encode(), password=None)
    key = new_key()
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = (
        certificate_builder(subject_name("manta-webhook"), authority.subject, key, now)
        .not_valid_after(min(now + LEAF_LIFETIME, authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(alternative_names(names), critical=False)
    )
    certificate = builder.sign(signer, hashes.SHA256())
    return replace(chain, certificate=pem(certificate), key=pem_key(key))


def _new_authority(now: datetime) -> tuple[str, str]:
    key = new_key()
    # The name contains the time, so that two CAs have different names.
    name = subject_name(f"manta-webhook-ca-{int(now.timestamp())}")
    builder = (
        certificate_builder(name, name, key, now)
        .not_valid_after(now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    return pem(builder.sign(key, hashes.SHA256())), pem_key(key)
