"""The Services of a RayCluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from manta.api.core import Service, ServicePort
from manta.api.ray import names
from manta.api.resources import SERVICES
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import correct, ensure, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.head_target import declared_head_ports
from manta.manifests.services import (
    build_head_service,
    build_headless_service,
    build_serve_service,
    serve_ports,
    wants_headless_service,
    wants_serve_service,
)
from manta.reconcile.actions import Create, Manifest
from manta.reconcile.plan import NOTHING, Plan
from manta.rules.traits import ray_container_of

# An annotation of the Service records the ports that the spec names (in the head container or in
# `headService`); they are removed when the spec no longer names them. All other ports stay: those that
# a user added, and Ray's default ports, on which it listens in any case. Services of KubeRay have no
# such annotation, so a migration removes no port. A port with a name or number that we need is
# replaced, because both are unique in a Service.
_PORT: Final = "port:"
_WITH_NODE_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})

Port = dict[str, Any]


def plan_head_service(snapshot: ClusterSnapshot) -> Plan:
    manifest = build_head_service(snapshot.cluster, snapshot.settings, snapshot.head)
    return _keep(snapshot, manifest, Cause.HEAD_SERVICE)


def plan_headless_service(snapshot: ClusterSnapshot) -> Plan:
    if not wants_headless_service(snapshot.cluster):
        return NOTHING
    return _keep(snapshot, build_headless_service(snapshot.cluster), Cause.HEADLESS_SERVICE)


def plan_serve_service(snapshot: ClusterSnapshot) -> Plan:
    """For Serve on a plain RayCluster. Nothing depends on it."""
    if not wants_serve_service(snapshot.cluster):
        return NOTHING
    if not serve_ports(snapshot.cluster, snapshot.head):
        return Plan(notes=("no serve Service: the head container declares no port named serve",))
    manifest = build_serve_service(snapshot.cluster, snapshot.head)
    return _keep(snapshot, manifest, Cause.SERVE_SERVICE, independent=True)


def _keep(
    snapshot: ClusterSnapshot, manifest: Manifest, cause: Cause, *, independent: bool = False
) -> Plan:
    manifest = _with_recorded_ports(snapshot, manifest)
    live = snapshot.services.get(manifest["metadata"]["name"])
    plan = ensure(snapshot, Create(SERVICES, manifest, cause), live, independent=independent)
    if plan != NOTHING or live is None:
        return plan
    spec = _spec_drift(manifest["spec"], live)
    change = metadata_drift(manifest["metadata"], live.metadata) | ({"spec": spec} if spec else {})
    why = f"{' and '.join(sorted(change))} differed from what the RayCluster asks for"
    if "ports" in spec:
        change = _with_note(change, manifest)
    return correct(
        snapshot, SERVICES, live, change, Cause.SERVICE_DRIFT, why, independent=independent
    )


# ── recorded ports ────────────────────────────────────────────────────────────────────────


def _with_recorded_ports(snapshot: ClusterSnapshot, manifest: Manifest) -> Manifest:
    """The manifest with the annotation that records the ports of the spec and the running head."""
    named = _named_ports(snapshot)
    ports = [one.get("name", "") for one in manifest["spec"].get("ports") or ()]
    requested = [f"{_PORT}{name}" for name in sorted(ports) if name in named]
    if not requested:
        return manifest
    meta, note = manifest["metadata"], names.ANNOTATION_PROPAGATED
    annotations = meta.get("annotations") or {}
    before = [annotations[note]] if note in annotations else []
    entries = {**annotations, note: ",".join([*before, *requested])}
    return {**manifest, "metadata": {**meta, "annotations": entries}}


def _named_ports(snapshot: ClusterSnapshot) -> set[str]:
    """Without the GCS port: an edit of ports must not disconnect running workers."""
    head = snapshot.cluster.spec.head_group_spec
    declared = ray_container_of(head.template).get("ports") or ()
    custom = ((head.head_service or {}).get("spec") or {}).get("ports") or ()
    named = {one.get("name") or f"{one['containerPort']}-port" for one in declared}
    named |= {one["name"] for one in custom if one.get("name")}
    if snapshot.head is not None:
        # Every head Pod gets the metrics port, whether its template declares it or not.
        named |= declared_head_ports(snapshot.cluster, snapshot.head).keys() - {
            names.PORT_NAME_METRICS
        }
    return named - {names.PORT_NAME_GCS}


def _with_note(change: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Patch the ports together with the annotation that records them; otherwise a port has no recorded
    owner."""
    note, meta = names.ANNOTATION_PROPAGATED, change.get("metadata") or {}
    wanted = (manifest["metadata"].get("annotations") or {}).get(note)
    annotations = {**(meta.get("annotations") or {}), note: wanted}
    return {**change, "metadata": {**meta, "annotations": annotations}}


def _recorded_ports(live: Service) -> set[str]:
    entries = live.metadata.annotations.get(names.ANNOTATION_PROPAGATED, "").split(",")
    return {one.removeprefix(_PORT) for one in entries if one.startswith(_PORT)}


# ── drift ────────────────────────────────────────────────────────────────────────────────


def _spec_drift(wanted: Mapping[str, Any], live: Service) -> dict[str, Any]:
    """The differences in fields that we own.

    Whether a Service is headless is immutable, so a change of type that needs it is skipped.
    """
    drift: dict[str, Any] = {}
    if wanted["selector"] != live.spec.selector:
        gone = dict.fromkeys(live.spec.selector.keys() - wanted["selector"].keys())
        drift["selector"] = {**wanted["selector"], **gone}
    type_ = live.spec.type
    if (wanted.get("clusterIP") == "None") == live.headless and wanted["type"] != type_:
        drift["type"] = type_ = wanted["type"]
    ports = _merged_ports(wanted.get("ports") or (), live, node_ports=type_ in _WITH_NODE_PORTS)
    if ports is not None:
        drift["ports"] = ports
    return drift


def _merged_ports(
    wanted: Sequence[Mapping[str, Any]], live: Service, *, node_ports: bool
) -> list[Port] | None:
    """Our ports, followed by those of others; None when the Service has exactly these."""
    if not wanted:
        return None
    known = [_plain(one, node_ports=node_ports) for one in live.spec.ports]
    ours = _with_node_ports([_filled(one, node_ports=node_ports) for one in wanted], known)
    taken = {one["name"] for one in ours} | _recorded_ports(live)
    places, node_places = {_place(one) for one in ours}, {_node_place(one) for one in ours}
    others = [
        one if _node_place(one) not in node_places else _without_node_port(one)
        for one in known
        # Only a single port may have no name.
        if one["name"] and one["name"] not in taken and _place(one) not in places
    ]
    merged = [*ours, *others]
    return None if sorted(merged, key=_place) == sorted(known, key=_place) else merged


def _with_node_ports(ours: list[Port], known: list[Port]) -> list[Port]:
    """Our ports with the node port that a port of this name, or else number, has: users rely on it."""
    named = {one["name"]: one for one in known}
    wanted = {one["name"] for one in ours}
    renamed = {_place(one): one for one in known if one["name"] not in wanted}
    requested = {_node_place(one) for one in ours if "nodePort" in one}
    kept: list[Port] = []
    for one in ours:
        before = named.get(one["name"]) or renamed.get(_place(one)) or {}
        fields: Port = {
            name: before[name] for name in ("nodePort", "appProtocol") if name in before
        }
        if before.get("protocol") != one["protocol"] or _node_place(before) in requested:
            fields.pop("nodePort", None)
        if before.get("name") != one["name"]:
            fields.pop("appProtocol", None)
        kept.append({**fields, **one})
    return kept


def _filled(port: Mapping[str, Any], *, node_ports: bool) -> Port:
    """The port with the API server's defaults, so that these are no drift. A type without node ports
    cannot have them."""
    number: int = port["port"]
    filled: Port = {
        "name": port.get("name") or "",
        "port": number,
        "protocol": port.get("protocol") or "TCP",
        "targetPort": port.get("targetPort") or number,
    }
    if port.get("appProtocol"):
        filled["appProtocol"] = port["appProtocol"]
    if port.get("nodePort") and node_ports:
        filled["nodePort"] = port["nodePort"]
    return filled


def _plain(port: ServicePort, *, node_ports: bool) -> Port:
    fields = {
        "name": port.name,
        "port": port.port,
        "protocol": port.protocol,
        "targetPort": port.target_port,
        "appProtocol": port.app_protocol,
        "nodePort": port.node_port,
    }
    return _filled(fields, node_ports=node_ports)


def _without_node_port(port: Port) -> Port:
    return {name: value for name, value in port.items() if name != "nodePort"}


def _place(port: Mapping[str, Any]) -> tuple[str, int]:
    return port["protocol"], port["port"]


def _node_place(port: Mapping[str, Any]) -> tuple[str, int]:
    return port["protocol"], port.get("nodePort", 0)
