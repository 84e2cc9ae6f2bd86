"""Which API server a user means, by kubectl's rules. The commands and the Python SDK share them.

In this order: the plane on this machine or the kubeconfig that is named; the variable KUBECONFIG,
whose files are merged; `~/.kube/config`; the service account of this Pod. If none of these exists, the
default plane of `manta up`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from manta.api.usage import UsageError
from manta.kube import config
from manta.kube.cluster import Cluster

DEFAULT_DIRECTORY: Final = "~/.manta"
ENV_DIRECTORY: Final = "MANTA_DIR"


class NoServerError(UsageError):
    """No argument, environment variable or file names an API server."""


def default_plane(environment: Mapping[str, str]) -> Path:
    """The state directory of `manta up`: MANTA_DIR, else `~/.manta`."""
    return Path(environment.get(ENV_DIRECTORY) or DEFAULT_DIRECTORY).expanduser()


def find_cluster(  # noqa: PLR0913  # what a user may name
    environment: Mapping[str, str],
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    cluster: str = "",
    user: str = "",
    plane: Path | None = None,
    fallback: Path | None = None,
    on_home_config: Callable[[], None] = lambda: None,
) -> Cluster:
    """The API server and its credentials. Raises NoServerError if there is none, and CredentialsError.

    `cluster` and `user` name entries of the kubeconfig that replace those of the context.
    `plane` and `fallback` are state directories of `manta up`: the one that the user named, and the one
    to use if nothing else is configured. `on_home_config` is called before `~/.kube/config` is used.
    """

    def loaded(path: Path | None) -> Cluster:
        return config.load(
            path, context=context, environment=environment, cluster=cluster, user=user
        )

    if plane is not None:
        return loaded(plane / "kubeconfig")
    if kubeconfig is not None:
        return loaded(kubeconfig)
    if environment.get("KUBECONFIG"):
        return loaded(None)
    if (Path.home() / ".kube" / "config").exists():
        on_home_config()
        return loaded(None)
    if environment.get("KUBERNETES_SERVICE_HOST") and (config.SERVICE_ACCOUNT / "token").exists():
        return config.in_cluster(environment)
    if fallback is not None and (fallback / "kubeconfig").exists():
        return loaded(fallback / "kubeconfig")
    raise NoServerError("no Kubernetes API server is configured")
