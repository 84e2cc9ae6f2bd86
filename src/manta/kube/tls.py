"""TLS contexts for API servers."""

from __future__ import annotations

import ssl
import tempfile
from contextlib import ExitStack
from pathlib import Path

from manta.kube.cluster import Cluster, Pem
from manta.kube.errors import CredentialsError


def client_context(cluster: Cluster, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
    """A context that trusts the cluster's CA and presents `certificate`, if given. Raises CredentialsError."""
    # Not create_default_context: from Python 3.13 it sets VERIFY_X509_STRICT, which refuses the
    # certificates of many clusters (no authority key identifier).
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if cluster.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.ca is None:
        context.load_default_certs()
    else:
        _trust(context, cluster.ca, f"certificate-authority of {cluster.origin}")
    if certificate:
        _show(context, cluster, certificate, key)
    return context


def read_pem(pem: Pem, what: str) -> bytes:
    """The PEM text. Raises CredentialsError; `what` says which field of which file names it."""
    if isinstance(pem, bytes):
        return pem
    try:
        return pem.read_bytes()
    except OSError as error:
        raise CredentialsError(f"{what}: cannot read {pem}: {error.strerror}") from error


def _trust(context: ssl.SSLContext, ca: Pem, what: str) -> None:
    text = read_pem(ca, what)
    try:
        context.load_verify_locations(cadata=text.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            f"{what} is not a PEM certificate ({error}); "
            "take it from the cluster again, e.g. with `kubectl config view --raw`"
        ) from error


def _show(context: ssl.SSLContext, cluster: Cluster, certificate: bytes, key: bytes) -> None:
    # The ssl module reads key pairs only from files. These exist during this call only.
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="manta-tls-")))
        certificate_file, key_file = folder / "tls.crt", folder / "tls.key"
        certificate_file.write_bytes(certificate)
        key_file.touch(mode=0o600)
        key_file.write_bytes(key)
        try:
            context.load_cert_chain(certificate_file, key_file)
        except (ssl.SSLError, OSError) as error:
            raise CredentialsError(
                f"client-certificate and client-key of {cluster.user.origin} are not a PEM pair "
                f"({error}); log in to the cluster again"
            ) from error
