"""What a new cluster holds before anyone has written to it."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth import roles

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_RBAC = "rbac.authorization.k8s.io/v1"


def bootstrap(app: App, port: int = 6443) -> None:
    """Create what must be there; what is there already stays as it is, but for addresses that are
    no longer ours."""
    renumber_services(app)
    for name in NAMESPACES:
        app.put("v1", "Namespace", {"metadata": {"name": name}})
    app.put("v1", "Service", _kubernetes(str(app.services[1]), port))
    for role in roles.cluster_roles():
        app.put(_RBAC, "ClusterRole", role)
    for binding in roles.cluster_role_bindings():
        app.put(_RBAC, "ClusterRoleBinding", binding)


def _kubernetes(address: str, port: int) -> dict[str, Any]:
    """How Pods find the server: by this name, and by the environment that it gives them."""
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
    """Give every Service of another range an address at the same place of today's range."""
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
