"""What the objects of one client share: the connection, the namespace, and what was made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike, environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manta.api.usage import InvalidValue
from manta.client.connection import NoServerError, default_plane, find_cluster
from manta.kube.client import Client as KubeClient
from manta.kube.cluster import Cluster, User
from manta.kube.transport import HttpTransport

if TYPE_CHECKING:
    from manta.sdk.async_objects import AsyncObject

AnyPath = str | PathLike[str]
CURES = (
    "no Kubernetes API server is configured: give kubeconfig=, or server= and token=, set the variable "
    "KUBECONFIG, or start a plane on this machine with `manta up`"
)


@dataclass(slots=True)
class Session:
    """The connection of a client."""

    kube: KubeClient
    namespace: str
    made: list[AsyncObject[Any]] = field(default_factory=list)
    """Objects to delete when the client is closed, in the order in which they were made."""
    cleanup: bool = False


def choose_cluster(  # the ways to name a server
    *,
    kubeconfig: AnyPath | None = None,
    context: str | None = None,
    server: str | None = None,
    token: str | None = None,
    ca: AnyPath | bytes | None = None,
    insecure: bool = False,
    plane: AnyPath | None = None,
) -> Cluster:
    """The API server of these arguments, else by kubectl's rules.

    Raises NoServerError, InvalidValue and CredentialsError.
    """
    if server is not None:
        return _of_server(server, token, ca, insecure=insecure)
    for name, value in (("ca", ca), ("insecure", insecure or None)):
        if value is not None:
            raise InvalidValue(name, "..." if name == "ca" else value, "give server= beside it")
    directory = None if plane is None else Path(plane).expanduser()
    if directory is not None and not (directory / "kubeconfig").exists():
        cure = f"no plane runs there; start it with `manta up --dir {directory}`"
        raise InvalidValue("plane", str(plane), cure)
    try:
        found = find_cluster(
            environ,
            kubeconfig=None if kubeconfig is None else Path(kubeconfig).expanduser(),
            context=context,
            plane=directory,
            fallback=default_plane(environ),
        )
    except NoServerError:
        raise NoServerError(CURES) from None
    return found if token is None else replace(found, user=User("token=", token=token))


def _of_server(
    server: str, token: str | None, ca: AnyPath | bytes | None, *, insecure: bool
) -> Cluster:
    if not server.startswith(("https://", "http://")):
        raise InvalidValue("server", server, "must be a URL such as https://127.0.0.1:6443")
    user = User("anonymous: no token=") if token is None else User("token=", token=token)
    pem = ca if ca is None or isinstance(ca, bytes) else Path(ca).expanduser()
    return Cluster(server.rstrip("/"), user, origin="server=", ca=pem, insecure=insecure)


def open_session(cluster: Cluster, namespace: str | None, *, cleanup: bool) -> Session:
    """A session with this cluster. Sends nothing yet."""
    kube = KubeClient(HttpTransport(cluster))
    return Session(kube, namespace or cluster.namespace, cleanup=cleanup)
