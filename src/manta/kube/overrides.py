"""kubectl's connection flags, which replace parts of the cluster that the kubeconfig names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from manta.kube.cluster import Cluster, User
from manta.kube.errors import CredentialsError
from manta.kube.http_proxy import is_http_url
from manta.kube.kubeconfig import impersonated_groups, impersonation


@dataclass(frozen=True, slots=True)
class Overrides:
    """An empty field changes nothing."""

    server: str = ""
    server_name: str = ""
    ca: Path | None = None
    insecure: bool = False
    token: str = field(default="", repr=False)
    certificate: Path | None = None
    key: Path | None = None
    as_user: str = ""
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        return self != _NONE


_NONE = Overrides()


def overridden(cluster: Cluster, flags: Overrides) -> Cluster:
    """The cluster with these flags applied, as kubectl applies them. Raises CredentialsError."""
    if not flags.given:
        return cluster
    _check(flags)
    ca, insecure = cluster.ca, cluster.insecure
    if flags.insecure and flags.ca is None:
        ca, insecure = None, True
    elif flags.ca is not None:
        ca, insecure = flags.ca, flags.insecure
    # The name belongs to the server of the kubeconfig.
    server_name = "" if flags.server else cluster.server_name
    return replace(
        cluster,
        server=flags.server.rstrip("/") or cluster.server,
        origin="--server" if flags.server else cluster.origin,
        server_name=flags.server_name or server_name,
        ca=ca,
        insecure=insecure,
        user=_user(cluster.user, flags),
    )


def _check(flags: Overrides) -> None:
    if flags.server and not is_http_url(flags.server):
        raise CredentialsError(
            f"--server {flags.server!r}: it must be a URL such as https://127.0.0.1:6443"
        )
    if flags.ca is not None and flags.insecure:
        raise CredentialsError(
            "--certificate-authority and --insecure-skip-tls-verify: use only one of them"
        )
    if not flags.as_user and (flags.as_groups or flags.as_uid or flags.as_extra):
        raise CredentialsError("--as-group, --as-uid and --as-user-extra need --as USER")


def _user(user: User, flags: Overrides) -> User:
    certificate = flags.certificate or user.certificate
    key = flags.key or user.key
    if (certificate is None) != (key is None):
        lacking = "--client-key" if key is None else "--client-certificate"
        raise CredentialsError(f"{lacking} is missing: certificate and key come in pairs")
    changed = replace(user, certificate=certificate, key=key)
    if flags.token:
        origin = "the flag --token"
        changed = replace(changed, token=flags.token, token_file=None, plugin=None, origin=origin)
    if flags.as_user:
        changed = replace(
            changed,
            headers=impersonation(flags.as_user, flags.as_uid),
            repeated=impersonated_groups(flags.as_groups, flags.as_extra),
        )
    return changed
