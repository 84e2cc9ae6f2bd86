"""Keys and certificates, as the plane's authority and the webhook issue them.

Import it where it is used: the cryptography library takes long to load.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SKEW = timedelta(hours=1)
"""Certificates are valid from before their creation, since clocks differ."""


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    """A certificate of this key, from now on; its end, extensions and signature are left to the caller."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
    )


def subject_name(name: str, groups: Sequence[str] = ()) -> x509.Name:
    """A common name; to Kubernetes it is a user, and the organizations are the groups."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def alternative_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    """DNS names and IP addresses of a server."""
    shown: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            shown.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            shown.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(shown)


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def pem_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
