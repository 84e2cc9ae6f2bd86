"""The Services of a RayCluster: made first, because Pods are reached through them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.core import Service, ServicePort
from manta.api.resources import SERVICES
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import ensure, mend, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.services import (
    build_head_service,
    build_headless_service,
    build_serve_service,
    serve_ports,
    wants_headless_service,
    wants_serve_service,
)
from manta.reconcile.actions import Manifest
from manta.reconcile.plan import NOTHING, Plan


def plan_head_service(seen: ClusterSnapshot) -> Plan:
    manifest = build_head_service(seen.cluster, seen.settings)
    return _keep(seen, manifest, Cause.HEAD_SERVICE)


def plan_headless_service(seen: ClusterSnapshot) -> Plan:
    if not wants_headless_service(seen.cluster):
        return NOTHING
    return _keep(seen, build_headless_service(seen.cluster), Cause.HEADLESS_SERVICE)


def plan_serve_service(seen: ClusterSnapshot) -> Plan:
    """For users who run Serve on a plain RayCluster. Nothing else waits for it."""
    if not wants_serve_service(seen.cluster):
        return NOTHING
    if not serve_ports(seen.cluster):
        return Plan(notes=("no serve Service: the head container declares no port named serve",))
    return _keep(seen, build_serve_service(seen.cluster), Cause.SERVE_SERVICE, independent=True)


def _keep(
    seen: ClusterSnapshot, manifest: Manifest, cause: Cause, *, independent: bool = False
) -> Plan:
    live = seen.services.get(manifest["metadata"]["name"])
    plan = ensure(seen, SERVICES, manifest, live, cause, independent=independent)
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata) | _spec_drift(
        manifest["spec"], live
    )
    why = f"{' and '.join(sorted(change))} differed from what the RayCluster asks for"
    return mend(seen, SERVICES, live, change, Cause.SERVICE_DRIFT, why, independent=independent)


def _spec_drift(wanted: Mapping[str, Any], live: Service) -> dict[str, Any]:
    """What differs in fields that we own and may change.

    Headless or not is decided for life when a Service is made: no patch could change it, so a
    change of type that would need one is left alone.
    """
    drift: dict[str, Any] = {}
    if wanted["selector"] != live.spec.selector:
        gone = dict.fromkeys(live.spec.selector.keys() - wanted["selector"].keys())
        drift["selector"] = {**wanted["selector"], **gone}
    if (wanted.get("clusterIP") == "None") == live.headless and wanted["type"] != live.spec.type:
        drift["type"] = wanted["type"]
    ports = _merged_ports(wanted.get("ports") or (), live.spec.ports)
    if ports is not None:
        drift["ports"] = ports
    return {"spec": drift} if drift else {}


def _merged_ports(
    wanted: tuple[Mapping[str, Any], ...], live: tuple[ServicePort, ...]
) -> list[dict[str, Any]] | None:
    """The live ports with ours among them, node ports kept; None when ours are all there."""
    known = {port.name: port for port in live}
    if all(_same(port, known.get(port.get("name", ""))) for port in wanted):
        return None
    ours = {port.get("name", ""): port for port in wanted}
    merged = [_plain(port) for port in live if port.name not in ours]
    for name, port in ours.items():
        before = known.get(name)
        kept = {"nodePort": before.node_port} if before and before.node_port else {}
        merged.append({**kept, **port})
    return merged


def _same(wanted: Mapping[str, Any], live: ServicePort | None) -> bool:
    if live is None:
        return False
    port: int = wanted["port"]
    asked = (port, wanted.get("targetPort", port), wanted.get("protocol", "TCP"))
    return asked == (live.port, live.target_port, live.protocol)


def _plain(port: ServicePort) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": port.name,
        "port": port.port,
        "protocol": port.protocol,
        "targetPort": port.target_port,
    }
    if port.app_protocol:
        plain["appProtocol"] = port.app_protocol
    if port.node_port:
        plain["nodePort"] = port.node_port
    return plain
