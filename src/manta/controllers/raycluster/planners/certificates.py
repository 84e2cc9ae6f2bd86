"""Mutual TLS: cert-manager is asked for certificates, and no Pod starts before they are issued.

A certificate names the addresses of the Pods that use it. Each Pod waits in its first init container
until its own address is in: here the addresses are added as Pods get them. An address of a Pod that
has gone is left in until the next one is added, so that a Pod that leaves costs no new certificate.
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
from manta.api.times import parse_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import ensure, is_ours, mend
from manta.controllers.raycluster.planners.joining import join
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests import certificates as manifests
from manta.manifests.tls import secret_name
from manta.reconcile.actions import Manifest, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.rules.pod_health import is_terminating
from manta.rules.traits import tls

NOT_ISSUED_RETRY: Final = timedelta(seconds=30)
EXPIRES_SOON: Final = timedelta(hours=24)


def plan_certificates(seen: ClusterSnapshot) -> Plan:
    """Make what is missing, and name every Pod's address."""
    if not tls(seen.cluster.spec):
        return NOTHING
    return join([*_authority(seen), _leaf(seen, head=True), _leaf(seen, head=False)])


def plan_trust(seen: ClusterSnapshot) -> Plan:
    """No Pod before its certificate: Ray reads it once, at its start (C88)."""
    missing = unissued(seen)
    return Plan(wait=Wait(missing, NOT_ISSUED_RETRY)) if missing else NOTHING


def plan_secret_owners(seen: ClusterSnapshot) -> Plan:
    """cert-manager leaves its Secrets behind; their keys are to go with the cluster.

    After the Pods, because nothing depends on it. Secrets are never listed, so a Certificate notes
    that its Secret has an owner."""
    if not tls(seen.cluster.spec):
        return NOTHING
    return join(
        _own_secret(live)
        for name, secret in _secrets(seen)
        if (live := seen.certificates.get(name)) is not None
        and is_ours(seen, live)
        and live.spec.secret_name == secret
    )


def _secrets(seen: ClusterSnapshot) -> Iterator[tuple[str, str]]:
    """Our Certificates and the Secrets that we name in them. Labels, owner and spec of a Certificate
    are its writer's word: who may write one must not be able to point us at any other Secret."""
    cluster = seen.cluster
    yield manifests.authority_name(cluster), manifests.authority_secret_name(cluster)
    for head in (True, False):
        yield manifests.certificate_name(cluster, head=head), secret_name(cluster, head=head)


def unissued(seen: ClusterSnapshot) -> str:
    """The certificate that nobody has issued yet, and what cert-manager says about it."""
    for name, live in _leaves(seen):
        if live is None or not live.has_been_issued:
            said = live.trouble if live else ""
            return f"certificate {name} is not issued yet{': ' if said else ''}{said}"
    return ""


def outdated(seen: ClusterSnapshot) -> str:
    """The certificate whose latest change nobody has issued yet: some Pod waits for it."""
    for name, live in _leaves(seen):
        if live is not None and live.has_been_issued and not live.is_current:
            said = live.trouble or "cert-manager has not got to it"
            return f"certificate {name} has not been issued anew: {said}"
    return ""


def expiring(seen: ClusterSnapshot) -> str:
    for name, live in _leaves(seen):
        end = live.status.not_after if live else None
        if end and parse_time(end) - seen.now < EXPIRES_SOON:
            return f"certificate {name} expires at {end} and has not been renewed"
    return ""


def _leaves(seen: ClusterSnapshot) -> Iterator[tuple[str, Certificate | None]]:
    if not tls(seen.cluster.spec):
        return
    for head in (True, False):
        name = manifests.certificate_name(seen.cluster, head=head)
        yield name, seen.certificates.get(name)


def _authority(seen: ClusterSnapshot) -> Iterator[Plan]:
    cluster = seen.cluster
    for manifest in (manifests.build_root_issuer(cluster), manifests.build_issuer(cluster)):
        live = seen.issuers.get(manifest["metadata"]["name"])
        yield ensure(seen, ISSUERS, manifest, live, Cause.TLS_ISSUER)
    authority = manifests.build_authority(cluster)
    known = seen.certificates.get(manifests.authority_name(cluster))
    yield ensure(seen, CERTIFICATES, authority, known, Cause.TLS_CERTIFICATE)


def _leaf(seen: ClusterSnapshot, *, head: bool) -> Plan:
    pods = seen.head_pods if head else seen.worker_pods
    manifest = manifests.build_certificate(
        seen.cluster, seen.settings.cluster_domain, _addresses(pods), head=head
    )
    live = seen.certificates.get(manifest["metadata"]["name"])
    plan = ensure(seen, CERTIFICATES, manifest, live, Cause.TLS_CERTIFICATE)
    if plan != NOTHING or live is None:
        return plan
    why = "it did not name every address that it is used at"
    change = _drift(manifest["spec"], live)
    return mend(seen, CERTIFICATES, live, change, Cause.TLS_ADDRESSES, why)


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
    owner = {
        "apiVersion": CERTIFICATES.api_version,
        "kind": CERTIFICATES.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
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
