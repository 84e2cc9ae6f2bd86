"""The Ingress or Route of the dashboard. Nothing depends on it."""

from __future__ import annotations

from typing import Any

from manta.api.codec import to_json
from manta.api.networking import Ingress, Route
from manta.api.resources import INGRESSES, ROUTES
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import correct, ensure, holds, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.ingress import build_ingress, build_route
from manta.reconcile.actions import Create, Manifest, OnExists
from manta.reconcile.plan import NOTHING, Plan


def plan_ingress(snapshot: ClusterSnapshot) -> Plan:
    if not snapshot.cluster.spec.head_group_spec.enable_ingress:
        return NOTHING
    if snapshot.settings.openshift and not snapshot.settings.ingress_on_openshift:
        return _plan_route(snapshot)
    manifest = build_ingress(snapshot.cluster, snapshot.head)
    plan = ensure(
        snapshot,
        Create(INGRESSES, manifest, Cause.INGRESS, cached_by_label=True),
        snapshot.ingress,
        independent=True,
    )
    if plan != NOTHING or snapshot.ingress is None:
        return plan
    change = metadata_drift(manifest["metadata"], snapshot.ingress.metadata)
    change |= _spec_drift(manifest, snapshot.ingress)
    why = f"{' and '.join(sorted(change))} differed from what the RayCluster asks for"
    return correct(
        snapshot, INGRESSES, snapshot.ingress, change, Cause.INGRESS_DRIFT, why, independent=True
    )


def _plan_route(snapshot: ClusterSnapshot) -> Plan:
    live, manifest = snapshot.route, build_route(snapshot.cluster, snapshot.head)
    plan = ensure(
        snapshot,
        Create(ROUTES, manifest, Cause.ROUTE, on_exists=OnExists.USE, cached_by_label=True),
        live,
        independent=True,
    )
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    change |= _route_drift(manifest, live)
    why = f"{' and '.join(sorted(change))} differed from what the RayCluster asks for"
    return correct(snapshot, ROUTES, live, change, Cause.ROUTE_DRIFT, why, independent=True)


def _route_drift(manifest: Manifest, live: Route) -> dict[str, Any]:
    """The router sets the host, users the certificate; the wildcard policy is immutable."""
    wanted, found = manifest["spec"], {"to": live.spec.to, "port": live.spec.port}
    drift = {name: wanted[name] for name in found if not holds(found[name], wanted[name])}
    return {"spec": drift} if drift else {}


def _spec_drift(manifest: Manifest, live: Ingress) -> dict[str, Any]:
    """If the spec has no class, keep the one that an admission plugin chose."""
    spec = manifest["spec"]
    wanted_class = spec.get("ingressClassName", live.spec.ingress_class_name)
    drift: dict[str, Any] = {}
    if wanted_class != live.spec.ingress_class_name:
        drift["ingressClassName"] = wanted_class
    plain = to_json(live.spec)
    if not holds(plain.get("rules", []), spec["rules"]):
        drift["rules"] = spec["rules"]
    if not holds(plain.get("tls", []), spec.get("tls", [])):
        drift["tls"] = spec.get("tls")
    return {"spec": drift} if drift else {}
