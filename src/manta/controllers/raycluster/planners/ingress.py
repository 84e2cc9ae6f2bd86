"""Ingress or Route to the dashboard. Nothing else waits for it, and it stops nothing."""

from __future__ import annotations

from typing import Any

from manta.api.codec import to_json
from manta.api.networking import Ingress, Route
from manta.api.resources import INGRESSES, ROUTES
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import ensure, holds, mend, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.ingress import build_ingress, build_route
from manta.reconcile.actions import Manifest
from manta.reconcile.plan import NOTHING, Plan


def plan_ingress(seen: ClusterSnapshot) -> Plan:
    if not seen.cluster.spec.head_group_spec.enable_ingress:
        return NOTHING
    if seen.settings.openshift and not seen.settings.ingress_on_openshift:
        return _plan_route(seen)
    manifest = build_ingress(seen.cluster, seen.head)
    plan = ensure(seen, INGRESSES, manifest, seen.ingress, Cause.INGRESS, independent=True)
    if plan != NOTHING or seen.ingress is None:
        return plan
    change = metadata_drift(manifest["metadata"], seen.ingress.metadata)
    change |= _spec_drift(manifest, seen.ingress)
    why = f"{' and '.join(sorted(change))} differed from what the RayCluster asks for"
    return mend(seen, INGRESSES, seen.ingress, change, Cause.INGRESS_DRIFT, why, independent=True)


def _plan_route(seen: ClusterSnapshot) -> Plan:
    live, manifest = seen.route, build_route(seen.cluster, seen.head)
    plan = ensure(seen, ROUTES, manifest, live, Cause.ROUTE, independent=True)
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    change |= _route_drift(manifest, live)
    why = f"{' and '.join(sorted(change))} differed from what the RayCluster asks for"
    return mend(seen, ROUTES, live, change, Cause.ROUTE_DRIFT, why, independent=True)


def _route_drift(manifest: Manifest, live: Route) -> dict[str, Any]:
    """The router gives it a host, and users a certificate; its wildcard policy is for life."""
    wanted, found = manifest["spec"], {"to": live.spec.to, "port": live.spec.port}
    drift = {name: wanted[name] for name in found if not holds(found[name], wanted[name])}
    return {"spec": drift} if drift else {}


def _spec_drift(manifest: Manifest, live: Ingress) -> dict[str, Any]:
    """Without a class of our own, the one that an admission plugin chose is right."""
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
