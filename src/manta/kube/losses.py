"""What we say of a server that gave no whole answer: one wording, whoever noticed it."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from manta.kube.cluster import Cluster
from manta.kube.connections import NotConnected
from manta.kube.errors import Unreachable


def unreachable(cluster: Cluster, error: Exception) -> Unreachable:
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


def about(cluster: Cluster, said: object) -> str:
    via = f" through proxy {urlsplit(cluster.proxy).hostname}" if cluster.proxy else ""
    return f"no answer from {cluster.server}{via}: {str(said) or type(said).__name__}"
