"""The objects that every cluster has: namespaces, the Service `kubernetes`, default roles."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

from manta.api.well_known import ANNOTATION_RBAC_AUTOUPDATE
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth import roles
from manta.localplane.apiserver.auth.rules import as_json, read_rules, uncovered

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_RBAC = "rbac.authorization.k8s.io/v1"
_CLUSTER_ROLES = "clusterroles.rbac.authorization.k8s.io"


def bootstrap(app: App, port: int = 6443) -> None:
    """Create the objects that do not exist, update the default roles, and move Services into the range."""
    renumber_services(app)
    for name in NAMESPACES:
        app.put("v1", "Namespace", {"metadata": {"name": name}})
    app.put("v1", "Service", _kubernetes(str(app.services[1]), port))
    for role in roles.cluster_roles():
        if not _updated(app, role):
            app.put(_RBAC, "ClusterRole", role)
    for binding in roles.cluster_role_bindings():
        app.put(_RBAC, "ClusterRoleBinding", binding)


def _updated(app: App, role: dict[str, Any]) -> bool:
    """Bring a default ClusterRole of an earlier version up to date; False when there is none.

    As in Kubernetes, the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` keeps one
    as it is, and permissions that users added stay. Permissions in `roles.WITHDRAWN` are removed.
    """
    record = app.store.get(_CLUSTER_ROLES, role["metadata"]["name"])
    if record is None:
        return False
    found = record.decode()
    meta = found["metadata"]
    if (meta.get("annotations") or {}).get(ANNOTATION_RBAC_AUTOUPDATE) != "true":
        return True
    labels = (meta.get("labels") or {}) | role["metadata"]["labels"]
    wanted = role | {"metadata": meta | {"labels": labels}}
    wanted = {name: wanted[name] for name in wanted if name not in ("apiVersion", "kind")}
    wanted["rules"] = [*role["rules"], *_added(found, role)]
    if wanted != found:
        app.store.put(_CLUSTER_ROLES, record.key, wanted)
    return True


def _added(found: dict[str, Any], role: dict[str, Any]) -> list[dict[str, Any]]:
    """The permissions that users added to a default role."""
    if "aggregationRule" in role:
        return []
    held, ours = read_rules(found.get("rules")), read_rules(role["rules"])
    return [
        as_json(rule)
        for rule in uncovered(held, ours)
        if not rule.resources or (rule.api_groups[0], rule.resources[0]) not in roles.WITHDRAWN
    ]


def _kubernetes(address: str, port: int) -> dict[str, Any]:
    """The Service by which Pods find the API server."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    spec = {
        "type": "ClusterIP",
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
    }
    metadata = {"name": "kubernetes", "namespace": "default", "labels": labels}
    return {"metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}}


def renumber_services(app: App) -> None:
    """Give every Service outside of the range the address with the same offset inside it."""
    first, size = int(app.services.network_address), app.services.num_addresses
    taken = {_address(record.decode()) for record in app.store.select("services")}
    for record in app.store.select("services"):
        body = record.decode()
        old = _address(body)
        if old is None or old in app.services:
            continue
        places = (first + (int(old) + step) % size for step in range(size))
        new = next(place for place in map(IPv4Address, places) if place not in taken)
        taken.add(new)
        spec = body["spec"] | {"clusterIP": str(new), "clusterIPs": [str(new)]}
        app.store.put("services", record.key, body | {"spec": spec})


def _address(service: dict[str, Any]) -> IPv4Address | None:
    address = (service.get("spec") or {}).get("clusterIP") or "None"
    return None if address == "None" else IPv4Address(address)
