"""Which cluster to connect to: from a kubeconfig, or from the Pod that this process runs in.

The environment is a parameter: `cli/` passes `os.environ`, and nothing here reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from manta.kube.cluster import Cluster, User
from manta.kube.errors import CredentialsError
from manta.kube.http_proxy import proxy_for

__all__ = ["SERVICE_ACCOUNT", "Cluster", "User", "discover", "in_cluster", "load"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NOTHING: Mapping[str, str] = MappingProxyType({})


def load(
    kubeconfig: Path | Sequence[Path] | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = NOTHING,
    cluster: str = "",
    user: str = "",
) -> Cluster:
    """The cluster of a context in `kubeconfig`, by default KUBECONFIG or ~/.kube/config.

    `cluster` and `user` name entries that replace those of the context. Raises CredentialsError.
    """
    from manta.kube.kubeconfig import load_files

    if kubeconfig is None:
        paths = kubeconfig_paths(environment)
    else:
        paths = [kubeconfig] if isinstance(kubeconfig, Path) else list(kubeconfig)
    return load_files(paths, context, environment, cluster=cluster, user=user)


def in_cluster(
    environment: Mapping[str, str] = NOTHING, *, folder: Path = SERVICE_ACCOUNT
) -> Cluster:
    """The cluster that this Pod runs in, by its mounted service account. Raises CredentialsError."""
    token, ca = folder / "token", folder / "ca.crt"
    if not token.exists():
        raise CredentialsError(
            f"not inside a cluster: {token} does not exist; "
            "use a kubeconfig, or mount the service account token (automountServiceAccountToken)"
        )
    # The variables work without DNS; the Service name works in every Pod.
    host = environment.get("KUBERNETES_SERVICE_HOST") or "kubernetes.default.svc"
    port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = folder / "namespace"
    return Cluster(
        server=server,
        user=User(f"service account in {folder}", token_file=token),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        context="in-cluster",
        origin=str(folder),
        ca=ca if ca.exists() else None,
        proxy=proxy_for(server, environment),
    )


def discover(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = NOTHING,
    folder: Path = SERVICE_ACCOUNT,
) -> Cluster:
    """The given kubeconfig or context; else KUBECONFIG; else the cluster of this Pod; else ~/.kube/config."""
    if kubeconfig or context or environment.get("KUBECONFIG"):
        return load(kubeconfig, context, environment=environment)
    if (folder / "token").exists():
        return in_cluster(environment, folder=folder)
    return load(environment=environment)


def kubeconfig_paths(environment: Mapping[str, str]) -> list[Path]:
    listed = environment.get("KUBECONFIG", "")
    paths = [Path(each).expanduser() for each in listed.split(os.pathsep) if each]
    return paths or [Path.home() / ".kube" / "config"]
