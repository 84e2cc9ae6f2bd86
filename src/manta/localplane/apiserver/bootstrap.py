"""What a new cluster holds before anyone has written to it."""

from __future__ import annotations

from manta.localplane.apiserver.app import App

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def bootstrap(app: App) -> None:
    """Create what must be there; what is there already stays as it is."""
    for name in NAMESPACES:
        app.put("v1", "Namespace", {"metadata": {"name": name}})
