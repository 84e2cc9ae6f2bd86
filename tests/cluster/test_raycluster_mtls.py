"""Mutual TLS: certificates are requested, awaited, kept in step with Pods, and reported in Events."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cryptography import x509

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CERTIFICATES, ISSUERS, SECRETS
from manta.rules.settings import FeatureGates, Settings
from support.certmanager import CertManager, cert_manager_crds
from support.fakenodes import fake_cluster
from support.raycluster import NAMESPACE, group
from support.raycrds import ray_crds
from support.rayoperator import Operated, condition, start_operator
from support.virtual import running, virtually

SETTINGS = Settings(gates=FeatureGates(ray_cluster_mtls=True), cert_manager=True)
TLS = {"enabled": True}
HEAD, WORKERS = Key(NAMESPACE, "ray-head-secret-demo"), Key(NAMESPACE, "ray-worker-secret-demo")


@asynccontextmanager
async def guarded(*, issuing: bool = True) -> AsyncIterator[tuple[Operated, CertManager]]:
    crds = [*ray_crds(), *cert_manager_crds()]
    async with fake_cluster(3, crds=crds) as cluster, start_operator(cluster, SETTINGS) as op:
        issuer = CertManager(cluster.client, refuses="" if issuing else "the CA is on holiday")
        async with running(issuer.run()):
            yield op, issuer


async def names_in(op: Operated, key: Key) -> tuple[set[str], set[str]]:
    """The host names and addresses of the certificate that is in this Secret."""
    data = (await op.client.get(SECRETS, key))["data"]
    found = x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = set(names.get_values_for_type(x509.DNSName))
    return hosts, {str(one) for one in names.get_values_for_type(x509.IPAddress)}


@virtually
async def test_c87_the_certificates_name_the_head_and_every_pods_address() -> None:
    async with guarded() as (op, _):
        await op.create(groups=[group(replicas=2)], tlsOptions=TLS)
        await op.until_ready()
        await asyncio.sleep(5)
        hosts, addresses = await names_in(op, HEAD)
        [head] = await op.pods(node="head")
        assert hosts == {"localhost", "demo-head-svc.default.svc.cluster.local"}
        assert addresses == {"127.0.0.1", head["status"]["podIP"]}
        _, addresses = await names_in(op, WORKERS)
        assert {one["status"]["podIP"] for one in await op.pods(node="worker")} <= addresses
        await op.scale(3)
        await op.until_pods(3)
        await asyncio.sleep(5)
        _, addresses = await names_in(op, WORKERS)
        assert {one["status"]["podIP"] for one in await op.pods(node="worker")} <= addresses


@virtually
async def test_c88_no_pod_starts_before_its_certificate_and_the_wait_is_reported() -> None:
    async with guarded(issuing=False) as (op, issuer):
        await op.create(tlsOptions=TLS)
        await asyncio.sleep(60)
        assert op.pod_creates() == 0
        blocked = condition(await op.read(), "Blocked")
        assert blocked is not None
        assert blocked.reason == "MTLSCertsNotReady"
        assert "ray-head-cert-demo" in blocked.message
        assert "the CA is on holiday" in blocked.message
        assert len(await op.cluster.events("MTLSCertsNotReady", NAMESPACE)) <= 2
        issuer.refuses = ""
        await issuer.look_again()
        found = await op.until_ready()
        assert condition(found, "Blocked") is None


@virtually
async def test_a_cluster_that_waits_for_certificates_can_be_suspended_and_deleted() -> None:
    async with guarded(issuing=False) as (op, _):
        await op.create(tlsOptions=TLS)
        await asyncio.sleep(10)
        await op.patch({"spec": {"suspend": True}})
        await op.until(lambda one: one.status.state == "suspended")
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await op.cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)


@virtually
async def test_a_quiet_cluster_costs_nothing_and_a_pod_that_leaves_no_new_certificate() -> None:
    async with guarded() as (op, issuer):
        await op.create(groups=[group(replicas=3)], tlsOptions=TLS)
        await op.until_ready()
        await asyncio.sleep(10)
        issued, before = list(issuer.issued), op.writes("cert-manager")
        await op.scale(1)
        await op.until_pods(1)
        await asyncio.sleep(1200)
        assert op.writes("cert-manager") == before
        assert issuer.issued == issued


@virtually
async def test_everything_goes_with_the_cluster_its_keys_too() -> None:
    async with guarded() as (op, _):
        await op.create(tlsOptions=TLS)
        await op.until_ready()
        await asyncio.sleep(10)
        assert len(await op.cluster.events("MTLSPKIReady", NAMESPACE)) >= 1
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await op.cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)
        await asyncio.sleep(30)
        for resource in (CERTIFICATES, ISSUERS, SECRETS):
            assert await op.cluster.names(resource, NAMESPACE) == []


@virtually
async def test_an_address_that_is_not_issued_yet_is_reported() -> None:
    async with guarded() as (op, issuer):
        await op.create(groups=[group(replicas=1)], tlsOptions=TLS)
        await op.until_ready()
        await asyncio.sleep(5)
        issuer.refuses = "the CA is on holiday"
        await op.scale(2)
        found = await op.until(lambda one: condition(one, "Blocked"))
        blocked: Any = condition(found, "Blocked")
        assert blocked.reason == "MTLSCertsNotReady"
        assert "ray-worker-cert-demo is not re-issued yet" in blocked.message


@virtually
async def test_a_certificate_that_runs_out_is_reported() -> None:
    async with guarded() as (op, issuer):
        now = op.cluster.plane.clock.now()
        issuer.not_after = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        await op.create(tlsOptions=TLS)
        found = await op.until(lambda one: condition(one, "Blocked"))
        blocked: Any = condition(found, "Blocked")
        assert blocked.reason in ("MTLSCertificateExpiringSoon", "MTLSCertsNotReady")
        await op.until(
            lambda one: (
                getattr(condition(one, "Blocked"), "reason", "") == "MTLSCertificateExpiringSoon"
            )
        )
