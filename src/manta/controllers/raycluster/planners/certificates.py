"""Mutual TLS: cert-manager issues certificates, and no Pod is created before they are issued.

A certificate contains the addresses of the Pods that use it, which this planner adds as Pods get them.
Each Pod waits in its first init container until the certificate has its address. The address of a
deleted Pod stays until the next one is added, so that a deletion needs no new certificate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from manta.api.certificates import Certificate
from manta.api.core import Pod
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.resources import CERTIFICATES, ISSUERS, SECRETS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import is_ours, missing_certificates
from manta.controllers.raycluster.planners.ensure import correct, ensure
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests import certificates as manifests
from manta.manifests.tls import secret_name
from manta.reconcile.actions import Create, Manifest, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do, merge
from manta.rules.pod_health import is_terminating
from manta.rules.traits import tls

NOT_ISSUED_RETRY: Final = timedelta(seconds=30)


def plan_certificates(snapshot: ClusterSnapshot) -> Plan:
    """Create issuers and certificates, and add the address of every Pod."""
    if not tls(snapshot.cluster.spec):
        return NOTHING
    return merge([*_authority(snapshot), _leaf(snapshot, head=True), _leaf(snapshot, head=False)])


def plan_trust(snapshot: ClusterSnapshot) -> Plan:
    """Create no Pod before its certificate: Ray reads it only when it starts (C88)."""
    missing = missing_certificates(snapshot)
    return Plan(wait=Wait(missing, NOT_ISSUED_RETRY)) if missing else NOTHING


def plan_secret_owners(snapshot: ClusterSnapshot) -> Plan:
    """cert-manager does not delete its Secrets, so make the cluster their owner.

    After the Pods, because nothing depends on it. The operator never lists Secrets, so an annotation
    of the Certificate records that its Secret has an owner."""
    if not tls(snapshot.cluster.spec):
        return NOTHING
    return merge(
        _own_secret(live)
        for name, secret in _secrets(snapshot)
        if (live := snapshot.certificates.get(name)) is not None
        and is_ours(snapshot, live)
        and live.spec.secret_name == secret
    )


def _secrets(snapshot: ClusterSnapshot) -> Iterator[tuple[str, str]]:
    """Our Certificates and their Secrets, by the names that we give them. A user who may write
    Certificates must not be able to point the operator to another Secret."""
    cluster = snapshot.cluster
    yield manifests.authority_name(cluster), manifests.authority_secret_name(cluster)
    for head in (True, False):
        yield manifests.certificate_name(cluster, head=head), secret_name(cluster, head=head)


def _authority(snapshot: ClusterSnapshot) -> Iterator[Plan]:
    cluster = snapshot.cluster
    for manifest in (manifests.build_root_issuer(cluster), manifests.build_issuer(cluster)):
        live = snapshot.issuers.get(manifest["metadata"]["name"])
        yield ensure(snapshot, Create(ISSUERS, manifest, Cause.TLS_ISSUER), live)
    authority = manifests.build_authority(cluster)
    known = snapshot.certificates.get(manifests.authority_name(cluster))
    yield ensure(snapshot, Create(CERTIFICATES, authority, Cause.TLS_CERTIFICATE), known)


def _leaf(snapshot: ClusterSnapshot, *, head: bool) -> Plan:
    pods = snapshot.head_pods if head else snapshot.worker_pods
    manifest = manifests.build_certificate(
        snapshot.cluster, snapshot.settings.cluster_domain, _addresses(pods), head=head
    )
    live = snapshot.certificates.get(manifest["metadata"]["name"])
    plan = ensure(snapshot, Create(CERTIFICATES, manifest, Cause.TLS_CERTIFICATE), live)
    if plan != NOTHING or live is None:
        return plan
    why = "it did not name every address that it is used at"
    change = _drift(manifest["spec"], live)
    return correct(snapshot, CERTIFICATES, live, change, Cause.TLS_ADDRESSES, why)


def _addresses(pods: Sequence[Pod]) -> list[str]:
    return [pod.status.pod_ip for pod in pods if pod.status.pod_ip and not is_terminating(pod)]


def _drift(wanted: Manifest, live: Certificate) -> Manifest:
    drift = {}
    if not set(wanted["ipAddresses"]) <= set(live.spec.ip_addresses):
        drift["ipAddresses"] = wanted["ipAddresses"]
    if not set(wanted["dnsNames"]) <= set(live.spec.dns_names):
        drift["dnsNames"] = wanted["dnsNames"]
    if live.spec.secret_name != wanted["secretName"]:
        drift["secretName"] = wanted["secretName"]
    if live.spec.issuer_ref.get("name") != wanted["issuerRef"]["name"]:
        drift["issuerRef"] = wanted["issuerRef"]
    return {"spec": drift} if drift else {}


def _own_secret(live: Certificate) -> Plan:
    meta = live.metadata
    is_noted = meta.annotations.get(names.ANNOTATION_SECRET_OWNER) == meta.uid
    if is_noted or not live.has_been_issued:
        return NOTHING
    owner = CERTIFICATES.controller_reference(meta)
    owned = Patch(
        SECRETS,
        Key(meta.namespace, live.spec.secret_name),
        {"metadata": {"ownerReferences": [owner]}},
        Cause.TLS_SECRET_OWNER,
        "it goes when its Certificate goes",
    )
    noted = Patch(
        CERTIFICATES,
        meta.key,
        {"metadata": {"annotations": {names.ANNOTATION_SECRET_OWNER: meta.uid}}},
        Cause.TLS_SECRET_NOTED,
        "its Secret has an owner",
        uid=meta.uid,
    )
    return do(owned).then(do(noted))
