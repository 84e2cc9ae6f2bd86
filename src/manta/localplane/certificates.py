"""The certificate authority of a plane: certificates of the server and of clients, and the token key.

All files are in one directory. Valid ones are used without loading the cryptography library. Other
server names need a new server certificate, never a new authority, so that kubeconfigs stay valid.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from manta.localplane.private_files import write_private_file

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)

SERVICE_ADDRESS = "10.96.0.1"
"""The address of the Service `kubernetes`."""

STANDARD_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    SERVICE_ADDRESS,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM text."""

    certificate: str
    key: str


class Authority:
    """The authority of one plane, with its files in `directory`."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self.directory = directory
        self._now = now
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.certificate_path.exists() or not self._path("ca.key").exists():
            self._create()

    @property
    def certificate_path(self) -> Path:
        return self._path("ca.crt")

    @property
    def certificate(self) -> str:
        return self.certificate_path.read_text()

    def server_context(self, names: Sequence[str] = ()) -> ssl.SSLContext:
        """Return the TLS context of the server; client certificates are optional."""
        self._ensure_leaf("server", names=(*STANDARD_NAMES, *names))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._path("server.crt"), self._path("server.key"))
        context.load_verify_locations(self.certificate_path)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def client(self, file_name: str, user: str, groups: Sequence[str] = ()) -> Pair:
        """Return a client certificate that is stored under `file_name` and renewed."""
        self._ensure_leaf(file_name, user=user, groups=groups)
        return Pair(
            self._path(f"{file_name}.crt").read_text(), self._path(f"{file_name}.key").read_text()
        )

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """Return a client certificate that is not stored."""
        return self._issue(user=user, groups=groups)

    def token_key(self) -> Path:
        """Return the path of the key that signs service account tokens."""
        path = self._path("sa.key")
        if not path.exists():
            from manta.runtime.x509 import new_key, pem_key

            write_private_file(path, pem_key(new_key()))
        return path

    # ── issuing ──────────────────────────────────────────────────────────────────────────
    def _path(self, name: str) -> Path:
        return self.directory / name

    def _create(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        from manta.runtime.x509 import certificate_builder, new_key, pem, pem_key, subject_name

        key = new_key()
        name = subject_name("manta-ca")
        builder = (
            certificate_builder(name, name, key, self._now)
            .not_valid_after(self._now + AUTHORITY_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )
        write_private_file(self._path("ca.key"), pem_key(key))
        write_private_file(self.certificate_path, pem(builder.sign(key, hashes.SHA256())))

    def _ensure_leaf(
        self,
        file_name: str,
        *,
        user: str = "",
        groups: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> None:
        """Issue and store a certificate, unless the stored one has the same names and does not end soon."""
        note = self._path(f"{file_name}.for")
        wanted = "\n".join([user, *groups, "--", *sorted(set(names))])
        paths = [self._path(f"{file_name}.{end}") for end in ("crt", "key")]
        if note.exists() and all(path.exists() for path in paths):
            stored, _, until = note.read_text().rpartition("\n")
            if stored == wanted and datetime.fromisoformat(until) - RENEW_BEFORE > self._now:
                return
        pair = self._issue(user=user, groups=groups, names=names)
        write_private_file(paths[0], pair.certificate)
        write_private_file(paths[1], pair.key)
        write_private_file(note, f"{wanted}\n{(self._now + LEAF_LIFE).isoformat()}")

    def _issue(
        self, *, user: str = "", groups: Sequence[str] = (), names: Sequence[str] = ()
    ) -> Pair:
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

        authority = x509.load_pem_x509_certificate(self.certificate.encode())
        signer: Any = serialization.load_pem_private_key(
            self._path("ca.key").read_bytes(), password=None
        )
        key = new_key()
        subject = subject_name(user or "manta-apiserver", groups)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            certificate_builder(subject, authority.subject, key, self._now)
            .not_valid_after(self._now + LEAF_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(alternative_names(names), critical=False)
        return Pair(pem(builder.sign(signer, hashes.SHA256())), pem_key(key))


def _key_usage(*, signs: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
