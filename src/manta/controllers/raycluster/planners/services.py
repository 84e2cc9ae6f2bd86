"""The Services of a RayCluster: made first, because Pods are reached through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from manta.api.core import Service, ServicePort
from manta.api.ray import names
from manta.api.resources import SERVICES
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import ensure, mend, metadata_drift
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
from manta.reconcile.actions import Manifest
from manta.reconcile.plan import NOTHING, Plan
from manta.rules.traits import ray_container_of

# Whose is a port? One that the spec names (in the head container or in `headService`) is noted on
# the Service, as labels and annotations are, and goes when the spec no longer names it. All others
# stay: those that somebody added by hand, and those that Ray has by default, for it listens on them
# whether they are declared or not. What KubeRay made bears no note, so a take-over closes no port.
# Only a name or a number that we need is taken from others: the server knows each but once.
_PORT: Final = "port:"
_WITH_NODE_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})

Port = dict[str, Any]


def plan_head_service(seen: ClusterSnapshot) -> Plan:
    manifest = build_head_service(seen.cluster, seen.settings, seen.head)
    return _keep(seen, manifest, Cause.HEAD_SERVICE)


def plan_headless_service(seen: ClusterSnapshot) -> Plan:
    if not wants_headless_service(seen.cluster):
        return NOTHING
    return _keep(seen, build_headless_service(seen.cluster), Cause.HEADLESS_SERVICE)


def plan_serve_service(seen: ClusterSnapshot) -> Plan:
    """For users who run Serve on a plain RayCluster. Nothing else waits for it."""
    if not wants_serve_service(seen.cluster):
        return NOTHING
    if not serve_ports(seen.cluster, seen.head):
        return Plan(notes=("no serve Service: the head container declares no port named serve",))
    manifest = build_serve_service(seen.cluster, seen.head)
    return _keep(seen, manifest, Cause.SERVE_SERVICE, independent=True)


def _keep(
    seen: ClusterSnapshot, manifest: Manifest, cause: Cause, *, independent: bool = False
) -> Plan:
    manifest = _noting_ports(seen, manifest)
    live = seen.services.get(manifest["metadata"]["name"])
    plan = ensure(seen, SERVICES, manifest, live, cause, independent=independent)
    if plan != NOTHING or live is None:
        return plan
    spec = _spec_drift(manifest["spec"], live)
    change = metadata_drift(manifest["metadata"], live.metadata) | ({"spec": spec} if spec else {})
    why = f"{' and '.join(sorted(change))} differed from what the RayCluster asks for"
    if "ports" in spec:
        change = _with_note(change, manifest)
    return mend(seen, SERVICES, live, change, Cause.SERVICE_DRIFT, why, independent=independent)


# ── the note ─────────────────────────────────────────────────────────────────────────────


def _noting_ports(seen: ClusterSnapshot, manifest: Manifest) -> Manifest:
    """The manifest, with a note of those of its ports that the spec or the running head names."""
    named = _named_ports(seen)
    ports = [one.get("name", "") for one in manifest["spec"].get("ports") or ()]
    asked = [f"{_PORT}{name}" for name in sorted(ports) if name in named]
    if not asked:
        return manifest
    meta, note = manifest["metadata"], names.ANNOTATION_PASSED_ON
    annotations = meta.get("annotations") or {}
    before = [annotations[note]] if note in annotations else []
    noted = {**annotations, note: ",".join([*before, *asked])}
    return {**manifest, "metadata": {**meta, "annotations": noted}}


def _named_ports(seen: ClusterSnapshot) -> set[str]:
    """But for the way to the GCS: an edit of ports must not cut workers off that are there."""
    head = seen.cluster.spec.head_group_spec
    declared = ray_container_of(head.template).get("ports") or ()
    custom = ((head.head_service or {}).get("spec") or {}).get("ports") or ()
    named = {one.get("name") or f"{one['containerPort']}-port" for one in declared}
    named |= {one["name"] for one in custom if one.get("name")}
    if seen.head is not None:
        # Every head Pod gets the metrics port, whether its template declares it or not.
        named |= declared_head_ports(seen.cluster, seen.head).keys() - {names.PORT_NAME_METRICS}
    return named - {names.PORT_NAME_GCS}


def _with_note(change: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """What was written and what is noted must not part: else a port would be nobody's."""
    note, meta = names.ANNOTATION_PASSED_ON, change.get("metadata") or {}
    wanted = (manifest["metadata"].get("annotations") or {}).get(note)
    annotations = {**(meta.get("annotations") or {}), note: wanted}
    return {**change, "metadata": {**meta, "annotations": annotations}}


def _noted_ports(live: Service) -> set[str]:
    noted = live.metadata.annotations.get(names.ANNOTATION_PASSED_ON, "").split(",")
    return {one.removeprefix(_PORT) for one in noted if one.startswith(_PORT)}


# ── drift ────────────────────────────────────────────────────────────────────────────────


def _spec_drift(wanted: Mapping[str, Any], live: Service) -> dict[str, Any]:
    """What differs in fields that we own and may change.

    Headless or not is decided for life when a Service is made: no patch could change it, so a
    change of type that would need one is left alone.
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
    """Our ports, and after them those of others; None when that is what is there."""
    if not wanted:
        return None
    known = [_plain(one, node_ports=node_ports) for one in live.spec.ports]
    ours = _with_what_they_have([_filled(one, node_ports=node_ports) for one in wanted], known)
    taken = {one["name"] for one in ours} | _noted_ports(live)
    places, node_places = {_place(one) for one in ours}, {_node_place(one) for one in ours}
    others = [
        one if _node_place(one) not in node_places else _without_node_port(one)
        for one in known
        # A port without a name may only be alone.
        if one["name"] and one["name"] not in taken and _place(one) not in places
    ]
    merged = [*ours, *others]
    return None if sorted(merged, key=_place) == sorted(known, key=_place) else merged


def _with_what_they_have(ours: list[Port], known: list[Port]) -> list[Port]:
    """With the node port that a port of this name, or else of this number, has by now: it is in
    bookmarks and firewalls. What we say nothing of, others may."""
    named = {one["name"]: one for one in known}
    wanted = {one["name"] for one in ours}
    renamed = {_place(one): one for one in known if one["name"] not in wanted}
    asked = {_node_place(one) for one in ours if "nodePort" in one}
    kept: list[Port] = []
    for one in ours:
        before = named.get(one["name"]) or renamed.get(_place(one)) or {}
        fields: Port = {
            name: before[name] for name in ("nodePort", "appProtocol") if name in before
        }
        if before.get("protocol") != one["protocol"] or _node_place(before) in asked:
            fields.pop("nodePort", None)
        if before.get("name") != one["name"]:
            fields.pop("appProtocol", None)
        kept.append({**fields, **one})
    return kept


def _filled(port: Mapping[str, Any], *, node_ports: bool) -> Port:
    """As the server fills it in, so that its defaults are no drift. Where the type has no node
    ports, it refuses or drops them."""
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
