"""What a new cluster holds before anyone has written to it."""

from __future__ import annotations

from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth import roles

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_RBAC = "rbac.authorization.k8s.io/v1"


def bootstrap(app: App) -> None:
    """Create what must be there; what is there already stays as it is."""
    for name in NAMESPACES:
        app.put("v1", "Namespace", {"metadata": {"name": name}})
    for role in roles.cluster_roles():
        app.put(_RBAC, "ClusterRole", role)
    for binding in roles.cluster_role_bindings():
        app.put(_RBAC, "ClusterRoleBinding", binding)
