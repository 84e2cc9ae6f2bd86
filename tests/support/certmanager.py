"""A stand-in for cert-manager: issues what Certificates ask for, when a test lets it.

Real certificates, signed by a real authority, in Secrets of cert-manager's shape: what it cannot do
is anything else.
"""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from manta.api.meta import Key
from manta.api.resources import CERTIFICATES, ISSUERS, SECRETS
from manta.kube.client import Client
from manta.kube.errors import ApiError

Json = dict[str, Any]


def cert_manager_crds() -> list[Json]:
    return [_crd(one.plural, one.kind) for one in (ISSUERS, CERTIFICATES)]


def _crd(plural: str, kind: str) -> Json:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": anything, "status": anything},
            }
        },
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.cert-manager.io"},
        "spec": {
            "group": "cert-manager.io",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }


class Signer:
    """One authority for everything that it is asked to sign."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self._certificate = self._signed(
            self._name, self._key.public_key(), x509.BasicConstraints(ca=True, path_length=None)
        )

    def secret_data(self, spec: Json) -> dict[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, spec["commonName"])])
        hosts: list[x509.GeneralName] = [x509.DNSName(one) for one in spec.get("dnsNames", ())]
        hosts += [x509.IPAddress(ipaddress.ip_address(one)) for one in spec.get("ipAddresses", ())]
        leaf = self._signed(
            subject, key.public_key(), x509.SubjectAlternativeName(hosts or [x509.DNSName("ca")])
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        pem = serialization.Encoding.PEM
        parts = {
            "tls.crt": leaf.public_bytes(pem),
            "tls.key": private,
            "ca.crt": self._certificate.public_bytes(pem),
        }
        return {name: base64.b64encode(value).decode() for name, value in parts.items()}

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(subject_name=subject, issuer_name=self._name)
        builder = builder.public_key(key).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1))
        builder = builder.not_valid_after(now + timedelta(days=90))
        return builder.add_extension(extension, critical=False).sign(self._key, hashes.SHA256())


@dataclass
class CertManager:
    """Issues every Certificate at each change of its spec, unless `refuses` is set."""

    client: Client
    refuses: str = ""
    """What it says instead of issuing."""
    not_after: str = "2030-01-01T00:00:00Z"
    issued: list[str] = field(default_factory=list)
    _signer: Signer = field(default_factory=Signer)

    async def run(self) -> None:
        while True:
            async for event in self.client.watch(CERTIFICATES, initial_events=True):
                if event.type in ("ADDED", "MODIFIED"):
                    await self._look_at(event.object)

    async def look_again(self) -> None:
        for one in (await self.client.list(CERTIFICATES)).items:
            await self._look_at(one)

    async def _look_at(self, certificate: Json) -> None:
        generation = certificate["metadata"]["generation"]
        status = certificate.get("status") or {}
        known = {one["type"]: one for one in status.get("conditions", ())}.get("Ready") or {}
        if known.get("status") == "True" and known.get("observedGeneration") == generation:
            return
        if self.refuses:
            if known.get("message") != self.refuses:
                await self._say(certificate, "False", self.refuses, status.get("revision"))
            return
        await self._keep(certificate)
        self.issued.append(certificate["metadata"]["name"])
        await self._say(certificate, "True", "issued", (status.get("revision") or 0) + 1)

    async def _keep(self, certificate: Json) -> None:
        meta, spec = certificate["metadata"], certificate["spec"]
        key = Key(meta["namespace"], spec["secretName"])
        data = self._signer.secret_data(spec)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "type": "kubernetes.io/tls",
            "data": data,
        }
        try:
            await self.client.create(SECRETS, key.namespace, body)
        except ApiError:
            await self.client.patch(SECRETS, key, {"data": data})

    async def _say(self, certificate: Json, ready: str, message: str, revision: int | None) -> None:
        meta = certificate["metadata"]
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": "Ready" if ready == "True" else "Pending",
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": meta["generation"],
        }
        status: Json = {"conditions": [condition]}
        if revision:
            status |= {"revision": revision, "notAfter": self.not_after}
        try:
            await self.client.patch(
                CERTIFICATES,
                Key(meta["namespace"], meta["name"]),
                {"status": status},
                subresource="status",
            )
        except ApiError:
            return
