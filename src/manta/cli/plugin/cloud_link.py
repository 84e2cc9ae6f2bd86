"""The address of a cluster's logs in a cloud console. Pure."""

from __future__ import annotations

from urllib.parse import quote_plus


def project_of(context: str) -> str:
    """The project of a context of GKE, `gke_PROJECT_LOCATION_NAME`; empty for any other."""
    return context.split("_")[1] if context.startswith("gke_") else ""


def gke_link(namespace: str, cluster: str, node_type: str, project: str) -> str:
    """The query of Google Cloud Logging for a cluster."""
    last = 'labels."k8s-pod/ray_io/is-ray-node"="yes"'
    if node_type != "all":
        last = f'labels."k8s-pod/ray_io/node-type"="{node_type}"'
    query = "\n".join(
        (
            'resource.type="k8s_container"',
            f'resource.labels.namespace_name="{namespace}"',
            f'labels."k8s-pod/ray_io/cluster"="{cluster}"',
            last,
        )
    )
    link = f"https://console.cloud.google.com/logs/query;query={quote_plus(query)}"
    return f"{link}?project={quote_plus(project)}" if project else link
