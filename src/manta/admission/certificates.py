"""An authority of the webhook's own, what it signs, and when either is due to be made anew.

A change is made in steps, so that no moment exists in which a server shows what nobody trusts yet:
a new authority is first only announced beside the old one; the next step signs with it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=5 * 365)
LEAF_LIFE = timedelta(days=365)
SKEW = timedelta(hours=1)
"""Clocks differ: what is made now is valid since a little while."""


@dataclass(frozen=True, slots=True)
class Chain:
    """What the Secret holds, as PEM."""

    authorities: str
    """All that may be trusted, the newest first."""
    authority_key: str
    """Of the newest one."""
    certificate: str
    key: str


class BrokenChain(ValueError):  # noqa: N818  named by what it is
    """What the Secret holds cannot be used."""


def next_chain(chain: Chain | None, names: Sequence[str], now: datetime) -> Chain | None:
    """The next step from here; None when all is well. Raises BrokenChain."""
    if chain is None:
        authority, key = _new_authority(now)
        return _with_leaf(Chain(authority, key, "", ""), names, now)
    try:
        authorities = x509.load_pem_x509_certificates(chain.authorities.encode())
        leaf = x509.load_pem_x509_certificate(chain.certificate.encode())
        _demand_key(authorities[0], chain.authority_key)
        _demand_key(leaf, chain.key)
        if _is_due(authorities[0], AUTHORITY_LIFE, now):
            return _with_authority(chain, now)
        if not _is_good(leaf, authorities[0], names, now):
            return _with_leaf(chain, names, now)
    except (ValueError, IndexError) as error:
        raise BrokenChain(str(error)) from error
    alive = [one for one in authorities if one.not_valid_after_utc > now]
    if len(alive) < len(authorities):
        return replace(chain, authorities="".join(map(_pem, alive)))
    return None


def _demand_key(certificate: x509.Certificate, key: str) -> None:
    """A certificate without its key is of no use."""
    found: Any = serialization.load_pem_private_key(key.encode(), password=None)
    if found.public_key() != certificate.public_key():
        raise ValueError("a key is not that of its certificate")


def _is_due(certificate: x509.Certificate, life: timedelta, now: datetime) -> bool:
    """Less than a third of its life is left."""
    return certificate.not_valid_after_utc - life / 3 < now


def _is_good(
    leaf: x509.Certificate, authority: x509.Certificate, names: Sequence[str], now: datetime
) -> bool:
    if _is_due(leaf, LEAF_LIFE, now):
        return False
    try:
        leaf.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001  each kind of mismatch has an error of its own
        return False
    shown = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return shown == _alternative_names(names)


def _with_authority(chain: Chain, now: datetime) -> Chain:
    authority, key = _new_authority(now)
    return replace(chain, authorities=authority + chain.authorities, authority_key=key)


def _with_leaf(chain: Chain, names: Sequence[str], now: datetime) -> Chain:
    authority = x509.load_pem_x509_certificates(chain.authorities.encode())[0]
    signer: Any = serialization.load_pem_private_key(chain.authority_key.encode(), password=None)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = (
        _builder(_named("manta-webhook"), authority.subject, key.public_key(), now)
        .not_valid_after(min(now + LEAF_LIFE, authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(_alternative_names(names), critical=False)
    )
    certificate = builder.sign(signer, hashes.SHA256())
    return replace(chain, certificate=_pem(certificate), key=_pem_key(key))


def _new_authority(now: datetime) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    # The moment is in the name: two authorities are never taken for one another.
    name = _named(f"manta-webhook-ca-{int(now.timestamp())}")
    builder = (
        _builder(name, name, key.public_key(), now)
        .not_valid_after(now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    return _pem(builder.sign(key, hashes.SHA256())), _pem_key(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    shown: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            shown.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            shown.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(shown)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _pem_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
