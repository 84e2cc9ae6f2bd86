"""The Services with stable names: made when a cluster can serve, re-pointed when another one can.

The serve Service decides which cluster serves. It is written first, and what becomes of the head
Service never holds it up (C47). The address of a serve Service is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.core import Service, ServicePort
from manta.api.ray import names
from manta.api.resources import SERVICES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.snapshot import ClusterSight, ServiceSnapshot
from manta.controllers.rayservice.step import Step, promoted, unchanged
from manta.manifests.containers import Json
from manta.manifests.passed_on import annotation_changes
from manta.manifests.serve_services import (
    build_cluster_serve_service,
    build_serve_service,
    build_service_head_service,
)
from manta.reconcile.actions import Action, Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, do


def selected_cluster(service: Service | None) -> str:
    return service.spec.selector.get(names.LABEL_CLUSTER, "") if service else ""


def plan_services(seen: ServiceSnapshot, target: ClusterSight | None) -> Step:
    """Point both Services at `target`; a pending cluster that gets them is promoted."""
    if target is None:
        return Step()
    wanted = build_serve_service(seen.service, target.cluster, target.head_pod)
    serve = ensure_service(seen.serve_service, wanted)
    plan = _alone(serve).then(plan_head_service(seen, target))
    change = promoted if target is seen.pending else unchanged
    return Step(plan.then(_superfluous(seen)), change, hangs_on=(serve,) if serve else ())


def plan_head_service(seen: ServiceSnapshot, target: ClusterSight) -> Plan:
    wanted = build_service_head_service(
        seen.service, target.cluster, seen.settings, target.head_pod
    )
    has = seen.head_service
    if has is not None and has.headless != (wanted["spec"].get("clusterIP") == "None"):
        return _alone(_replaced(has))
    return _alone(ensure_service(has, wanted))


def _replaced(has: Service) -> Action | None:
    """Whether a Service has an address of its own cannot be changed: it is made again when it is
    gone. Only people and dashboards use it, by its name."""
    if has.metadata.deletion_timestamp is not None:
        return None
    why = "it can only be made again with, or without, an address of its own"
    return Delete(SERVICES, has.metadata.key, has.metadata.uid, Cause.DELETE_SERVICE, why)


def plan_cluster_serve_service(seen: ServiceSnapshot, sight: ClusterSight) -> Plan:
    """One cluster's own serve Service, which a route can weigh against another's."""
    wanted = build_cluster_serve_service(seen.service, sight.cluster, sight.head_pod)
    return _alone(ensure_service(sight.serve_service, wanted))


def plan_stable_serve_service(seen: ServiceSnapshot, target: ClusterSight) -> Plan:
    """While traffic is split nobody needs the stable name; who has it from before keeps it alive."""
    if seen.serve_service is None:
        return NOTHING
    wanted = build_serve_service(seen.service, target.cluster, target.head_pod)
    return _alone(ensure_service(seen.serve_service, wanted))


_FOLLOWED: Final = {
    "type": ("type", "ClusterIP"),
    "sessionAffinity": ("session_affinity", "None"),
    "sessionAffinityConfig": ("session_affinity_config", None),
    "externalTrafficPolicy": ("external_traffic_policy", None),
    "internalTrafficPolicy": ("internal_traffic_policy", None),
    "loadBalancerSourceRanges": ("load_balancer_source_ranges", None),
    "externalIPs": ("external_ips", None),
    "publishNotReadyAddresses": ("publish_not_ready_addresses", None),
}
"""Fields of a spec that follow the RayService: the attribute, and what a field becomes that the spec no
longer names. None: it stays as it is, because the server or a cloud may have filled it in."""


def ensure_service(has: Service | None, wanted: Json) -> Action | None:
    """Make it, or change what differs; None when it is right."""
    if has is None:
        return Create(SERVICES, wanted, Cause.CREATE_SERVICE)
    change, meta = _spec_changes(has, wanted["spec"]), has.metadata
    labels = wanted["metadata"]["labels"]
    annotations = annotation_changes(meta.annotations, wanted["metadata"].get("annotations") or {})
    if not change and not annotations and labels.items() <= meta.labels.items():
        return None
    body: Json = {"metadata": {"labels": labels}}
    body["metadata"] |= {"annotations": annotations} if annotations else {}
    body |= {"spec": change} if change else {}
    target = wanted["spec"]["selector"].get(names.LABEL_CLUSTER, "")
    why = f"it now stands before RayCluster {target}"
    if "selector" not in change:
        what = ", ".join(sorted({*change, *annotations})) or "its labels"
        why = f"the spec asks for another {what}"
    return Patch(SERVICES, meta.key, body, Cause.UPDATE_SERVICE, why, uid=meta.uid)


def _spec_changes(has: Service, spec: Json) -> Json:
    change: Json = {}
    if dict(has.spec.selector) != spec["selector"]:
        gone = {key: None for key in has.spec.selector if key not in spec["selector"]}
        change["selector"] = {**gone, **spec["selector"]}
    for field, (attribute, default) in _FOLLOWED.items():
        goal = spec.get(field, default)
        if goal is not None and _plain(getattr(has.spec, attribute)) != _plain(goal):
            change[field] = goal
    if _typed(spec["ports"]) != _without_node_ports(has.spec.ports) or "type" in change:
        exposed = spec.get("type") in ("NodePort", "LoadBalancer")
        change["ports"] = _with_node_ports(spec["ports"], has) if exposed else spec["ports"]
    return change


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _typed(ports: list[Json]) -> tuple[ServicePort, ...]:
    """As the server shows them: the target defaults to the port itself."""
    filled = [{"targetPort": port["port"], **port} for port in ports]
    return _without_node_ports(msgspec.convert(filled, tuple[ServicePort, ...]))


def _without_node_ports(ports: tuple[ServicePort, ...]) -> tuple[ServicePort, ...]:
    return tuple(msgspec.structs.replace(port, node_port=0) for port in ports)


def _with_node_ports(ports: list[Json], has: Service) -> list[Mapping[str, Any]]:
    """A port that stays keeps the number that every node knows it by."""
    known = {port.name: port.node_port for port in has.spec.ports if port.node_port}
    return [
        {**port, "nodePort": known[port["name"]]} if port.get("name") in known else port
        for port in ports
    ]


def _superfluous(seen: ServiceSnapshot) -> Plan:
    """A serve Service under a name that the spec no longer gives it."""
    if seen.serve_service is None:
        return NOTHING
    actions = [
        Delete(SERVICES, one.metadata.key, one.metadata.uid, Cause.DELETE_SERVICE, "it was renamed")
        for one in seen.own_services
        if names.LABEL_SERVE in one.metadata.labels
        and one.metadata.uid != seen.serve_service.metadata.uid
        and one.metadata.deletion_timestamp is None
    ]
    return do(*actions, independent=True)


def _alone(action: Action | None) -> Plan:
    return do(action, independent=True) if action else NOTHING
