"""The cert-manager objects of a cluster with mutual TLS.

A self-signed root, an authority for this cluster alone, and one certificate each for the head and for all workers.
They contain the addresses of Pods, so they are issued again when Pods are added.
"""

from __future__ import annotations

from collections.abc import Iterable

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.resources import CERTIFICATES, ISSUERS, Resource
from manta.api.well_known import LABEL_APP_COMPONENT, LABEL_APP_CREATED_BY, LABEL_APP_NAME
from manta.manifests.containers import Json
from manta.manifests.ownership import owned_by
from manta.manifests.tls import secret_name
from manta.rules.traits import head_fqdn

LOOPBACK, LOOPBACK_6 = "127.0.0.1", "::1"
_AUTHORITY_LIFE, _AUTHORITY_RENEWAL = "87600h0m0s", "720h0m0s"
_LEAF_LIFE, _LEAF_RENEWAL = "2160h0m0s", "360h0m0s"
_BOTH_SIDES = ["digital signature", "key encipherment", "server auth", "client auth"]


def root_issuer_name(cluster: RayCluster) -> str:
    return f"ray-selfsigned-issuer-{cluster.metadata.name}"


def issuer_name(cluster: RayCluster) -> str:
    return f"ray-ca-issuer-{cluster.metadata.name}"


def authority_name(cluster: RayCluster) -> str:
    return f"ray-ca-certificate-{cluster.metadata.name}"


def certificate_name(cluster: RayCluster, *, head: bool) -> str:
    return f"ray-{'head' if head else 'worker'}-cert-{cluster.metadata.name}"


def build_root_issuer(cluster: RayCluster) -> Json:
    return _object(
        cluster, ISSUERS, "selfsigned-issuer", root_issuer_name(cluster), {"selfSigned": {}}
    )


def build_authority(cluster: RayCluster) -> Json:
    spec = {
        "isCA": True,
        "commonName": f"{cluster.metadata.name}-ca",
        "secretName": authority_secret_name(cluster),
        "duration": _AUTHORITY_LIFE,
        "renewBefore": _AUTHORITY_RENEWAL,
        "privateKey": {"algorithm": "RSA", "size": 4096},
        "issuerRef": _issuer_reference(root_issuer_name(cluster)),
    }
    return _object(cluster, CERTIFICATES, "ca-certificate", authority_name(cluster), spec)


def build_issuer(cluster: RayCluster) -> Json:
    ca = {"secretName": authority_secret_name(cluster)}
    return _object(cluster, ISSUERS, "ca-issuer", issuer_name(cluster), {"ca": ca})


def build_certificate(
    cluster: RayCluster, domain: str, addresses: Iterable[str], *, head: bool
) -> Json:
    """The Certificate. `addresses` are those of the existing Pods."""
    hosts = ["localhost", *([head_fqdn(cluster, domain)] if head else [])]
    spec = {
        "commonName": f"ray-{'head' if head else 'worker'}",
        "secretName": secret_name(cluster, head=head),
        "duration": _LEAF_LIFE,
        "renewBefore": _LEAF_RENEWAL,
        "privateKey": {"algorithm": "RSA", "size": 2048},
        "usages": _BOTH_SIDES,
        "dnsNames": hosts,
        "ipAddresses": _with_loopback(addresses),
        "issuerRef": _issuer_reference(issuer_name(cluster)),
    }
    component = f"{'head' if head else 'worker'}-certificate"
    return _object(cluster, CERTIFICATES, component, certificate_name(cluster, head=head), spec)


def _with_loopback(addresses: Iterable[str]) -> list[str]:
    """With the loopback of IPv6 only if a Pod has an IPv6 address: KubeRay names only IPv4's."""
    found = set(addresses) - {LOOPBACK, LOOPBACK_6}
    loopbacks = [LOOPBACK, LOOPBACK_6] if any(":" in one for one in found) else [LOOPBACK]
    return [*loopbacks, *sorted(found)]


def authority_secret_name(cluster: RayCluster) -> str:
    """Contains the UID: a new cluster with the same name never trusts the old authority."""
    return f"{cluster.metadata.name}-ca-secret-{cluster.metadata.uid[:8]}"


def _issuer_reference(name: str) -> Json:
    return {"name": name, "kind": ISSUERS.kind, "group": ISSUERS.group}


def _object(cluster: RayCluster, resource: Resource, component: str, name: str, spec: Json) -> Json:
    labels = {
        names.LABEL_CLUSTER: cluster.metadata.name,
        LABEL_APP_NAME: names.APPLICATION_NAME,
        LABEL_APP_CREATED_BY: names.OPERATOR_NAME,
        LABEL_APP_COMPONENT: component,
    }
    meta = {"name": name, "namespace": cluster.metadata.namespace, "labels": labels}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    return owned_by(cluster, {**body, "spec": spec})
