"""What a new cluster holds before anyone has written to it."""

from __future__ import annotations

from typing import Any

from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth import roles
from manta.localplane.certificates import SERVICE_ADDRESS

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
KUBERNETES_SERVICE = {
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
    },
    "status": {"loadBalancer": {}},
}
"""How Pods find the API server: by this name, and by the environment that it gives them."""
_RBAC = "rbac.authorization.k8s.io/v1"


def bootstrap(app: App, port: int = 6443) -> None:
    """Create what must be there; what is there already stays as it is."""
    for name in NAMESPACES:
        app.put("v1", "Namespace", {"metadata": {"name": name}})
    app.put("v1", "Service", KUBERNETES_SERVICE)
    app.put("v1", "Service", _service(port))
    for role in roles.cluster_roles():
        app.put(_RBAC, "ClusterRole", role)
    for binding in roles.cluster_role_bindings():
        app.put(_RBAC, "ClusterRoleBinding", binding)


def _service(port: int) -> dict[str, Any]:
    """Where Pods find the server: `kubernetes.default`."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    return {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"clusterIP": SERVICE_ADDRESS, "ports": ports, "type": "ClusterIP"},
    }
