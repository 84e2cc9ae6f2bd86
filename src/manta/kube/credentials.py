"""Find the cluster to talk to: a kubeconfig, or the Pod that we run in.

The environment comes in as a value: `cli/` passes `os.environ`, and nothing here reads it.
"""

from __future__ import annotations

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
) -> Cluster:
    """The cluster of a context in `kubeconfig`, by default KUBECONFIG or ~/.kube/config."""
    from manta.kube.kubeconfig import load_files

    if kubeconfig is None:
        paths = kubeconfig_paths(environment)
    else:
        paths = [kubeconfig] if isinstance(kubeconfig, Path) else list(kubeconfig)
    return load_files(paths, context, environment)


def in_cluster(
    environment: Mapping[str, str] = NOTHING, *, folder: Path = SERVICE_ACCOUNT
) -> Cluster:
    """The cluster whose Pod we are, by the service account that is mounted into it."""
    token, ca = folder / "token", folder / "ca.crt"
    if not token.exists():
        raise CredentialsError(
            f"not inside a cluster: {token} does not exist; "
            "use a kubeconfig, or mount the service account token (automountServiceAccountToken)"
        )
    # The names of the Service work in every Pod, but the variables also do without DNS.
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
    """What was asked for; else KUBECONFIG; else the cluster around us; else ~/.kube/config."""
    if kubeconfig or context or environment.get("KUBECONFIG"):
        return load(kubeconfig, context, environment=environment)
    if (folder / "token").exists():
        return in_cluster(environment, folder=folder)
    return load(environment=environment)


def kubeconfig_paths(environment: Mapping[str, str]) -> list[Path]:
    listed = environment.get("KUBECONFIG", "")
    paths = [Path(each).expanduser() for each in listed.split(":") if each]
    return paths or [Path.home() / ".kube" / "config"]
