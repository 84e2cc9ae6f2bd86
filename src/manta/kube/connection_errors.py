"""Messages for a server that gave no complete response: the same for both transports."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from manta.kube.cluster import Cluster
from manta.kube.connection_pool import NotConnected
from manta.kube.errors import Unreachable


def unreachable(cluster: Cluster, error: Exception) -> Unreachable:
    """The Unreachable error for a failure of our own connection pool."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return untrusted(cluster, cause)
    return Unreachable(about(cluster, error), sent=not isinstance(error, NotConnected))


def untrusted(cluster: Cluster, error: Exception) -> Unreachable:
    return Unreachable(
        f"the certificate of {cluster.server} is not trusted ({error}); "
        f"check certificate-authority and tls-server-name of {cluster.origin}",
        sent=False,
    )


def about(cluster: Cluster, error: object) -> str:
    via = f" through proxy {urlsplit(cluster.proxy).hostname}" if cluster.proxy else ""
    return f"no answer from {cluster.server}{via}: {str(error) or type(error).__name__}"
