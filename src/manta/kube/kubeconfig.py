"""kubeconfig files: read, merged and resolved to the Cluster of one context.

Follows kubectl: in a list of files the first that names a thing wins, missing files of a list
are passed over, and relative paths are relative to the file that holds them. Every error names
the file, the field, the value (never a secret) and the cure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from manta.kube import exec_plugin, http_proxy
from manta.kube.cluster import Cluster, ExecPlugin, Pem, User
from manta.kube.errors import CredentialsError
from manta.kube.kubeconfig_file import (
    ClusterEntry,
    ContextEntry,
    ExecEntry,
    KubeconfigFile,
    UserEntry,
    read_file,
)

E = TypeVar("E")

EXEC_CONFIG_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class _Found(Generic[E]):
    """An entry, and the file whose directory its relative paths start from."""

    name: str
    entry: E
    file: Path

    def path(self, text: str) -> Path:
        return self.file.parent / text


def load_files(
    paths: Sequence[Path], context: str | None, environment: Mapping[str, str]
) -> Cluster:
    """The cluster of `context`, or of the current context, in the merged files."""
    files = [(path, read_file(path)) for path in paths if len(paths) == 1 or path.exists()]
    if not files:
        tried = ", ".join(str(path) for path in paths)
        raise CredentialsError(f"none of these kubeconfig files exists: {tried}")
    where = ", ".join(str(path) for path, _ in files)
    name = context or next((file.current_context for _, file in files if file.current_context), "")
    if not name:
        raise CredentialsError(
            f"kubeconfig {where} has no current-context: name one of "
            f"{_names(files, lambda file: file.contexts)}, or run `kubectl config use-context`"
        )
    chosen = _find(files, lambda file: file.contexts, name, f"context of {where}")
    return _resolve(files, chosen, environment)


def _resolve(
    files: Sequence[tuple[Path, KubeconfigFile]],
    context: _Found[ContextEntry],
    environment: Mapping[str, str],
) -> Cluster:
    spot = f"context {context.name!r} in {context.file}"
    found = _find(files, lambda file: file.clusters, context.entry.cluster, f"cluster of {spot}")
    user = User(f"{spot}, which names no user")
    if context.entry.user:
        known = _find(files, lambda file: file.users, context.entry.user, f"user of {spot}")
        user = _user(known, found, environment)
    origin = f"cluster {found.name!r} in {found.file}"
    cluster, server = found.entry, _server(found.entry, origin)
    proxy = cluster.proxy_url and http_proxy.checked(cluster.proxy_url, f"proxy-url of {origin}")
    ca = _pem(found, cluster.certificate_authority_data, cluster.certificate_authority, origin)
    if cluster.insecure and ca is not None:
        raise CredentialsError(
            f"{origin} has both a certificate-authority and insecure-skip-tls-verify: "
            "true: remove one of them"
        )
    return Cluster(
        server=server,
        user=user,
        namespace=context.entry.namespace or "default",
        context=context.name,
        origin=origin,
        ca=ca,
        insecure=cluster.insecure,
        server_name=cluster.tls_server_name,
        proxy=proxy or http_proxy.proxy_for(server, environment),
    )


def _server(cluster: ClusterEntry, origin: str) -> str:
    if not http_proxy.is_http_url(cluster.server):
        raise CredentialsError(
            f"server of {origin} is {cluster.server!r}: "
            "it must be a URL such as https://127.0.0.1:6443"
        )
    return cluster.server.rstrip("/")


def _user(
    found: _Found[UserEntry], cluster: _Found[ClusterEntry], environment: Mapping[str, str]
) -> User:
    entry = found.entry
    origin = f"user {found.name!r} in {found.file}"
    _refuse_old_ways(entry, origin)
    certificate = _pem(found, entry.client_certificate_data, entry.client_certificate, origin)
    key = _pem(found, entry.client_key_data, entry.client_key, origin)
    if (certificate is None) != (key is None):
        lacking = "client-key" if key is None else "client-certificate"
        raise CredentialsError(f"{origin} has no {lacking}: certificate and key come in pairs")
    return User(
        origin=origin,
        token=entry.token,
        token_file=found.path(entry.token_file) if entry.token_file else None,
        certificate=certificate,
        key=key,
        plugin=_plugin(found, entry.exec_, cluster, environment) if entry.exec_ else None,
        headers=_impersonation(entry, origin),
    )


def _refuse_old_ways(entry: UserEntry, origin: str) -> None:
    other = entry.token or entry.token_file or entry.client_certificate or entry.exec_
    if entry.auth_provider:
        raise CredentialsError(
            f"{origin} uses auth-provider {entry.auth_provider.get('name')!r}, which Kubernetes "
            "has removed: use the exec plugin of your provider"
        )
    if entry.username and not (other or entry.client_certificate_data):
        raise CredentialsError(
            f"{origin} has a username and password, which API servers no longer accept: "
            "use a token, a client certificate or an exec plugin"
        )


def _impersonation(entry: UserEntry, origin: str) -> dict[str, str]:
    if entry.as_groups or entry.as_user_extra:
        # One header for each group: more than a mapping of headers can say.
        raise CredentialsError(
            f"{origin} impersonates groups (as-groups, as-user-extra), which is not supported: "
            "use `as` with a user, or credentials of its own"
        )
    named = {"impersonate-user": entry.as_, "impersonate-uid": entry.as_uid}
    return {name: value for name, value in named.items() if value}


def _plugin(
    found: _Found[UserEntry],
    entry: ExecEntry,
    cluster: _Found[ClusterEntry],
    environment: Mapping[str, str],
) -> ExecPlugin:
    origin = f"exec of user {found.name!r} in {found.file}"
    if entry.api_version not in exec_plugin.SUPPORTED:
        raise CredentialsError(
            f"{origin} has apiVersion {entry.api_version!r}: use {exec_plugin.SUPPORTED[0]}"
        )
    if not entry.command:
        raise CredentialsError(f"{origin} has no command")
    # As kubectl: a bare name is looked for in PATH, anything with a slash is a file.
    command = str(found.path(entry.command)) if "/" in entry.command else entry.command
    extra = {variable.name: variable.value for variable in entry.env or ()}
    return ExecPlugin(
        command=command,
        api_version=entry.api_version,
        args=tuple(entry.args or ()),
        env=extra,
        environment=environment,
        cluster_info=_cluster_info(cluster) if entry.provide_cluster_info else None,
        install_hint=entry.install_hint,
        needs_terminal=entry.interactive_mode == "Always",
    )


def _cluster_info(found: _Found[ClusterEntry]) -> dict[str, Any]:
    """What `provideClusterInfo` promises to a plugin: never a secret."""
    entry = found.entry
    ca = _pem(found, entry.certificate_authority_data, entry.certificate_authority, found.name)
    text = ca.read_bytes() if isinstance(ca, Path) else ca
    info: dict[str, Any] = {
        "server": entry.server,
        "tls-server-name": entry.tls_server_name,
        "insecure-skip-tls-verify": entry.insecure,
        "certificate-authority-data": base64.b64encode(text).decode() if text else "",
        "proxy-url": entry.proxy_url,
    }
    extension = {each.get("name"): each.get("extension") for each in entry.extensions or ()}
    info["config"] = extension.get(EXEC_CONFIG_EXTENSION)
    return {name: value for name, value in info.items() if value}


def _pem(found: _Found[Any], data: str, file: str, origin: str) -> Pem | None:
    """Data wins over a file, as everywhere in kubeconfig."""
    if not data:
        return found.path(file) if file else None
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CredentialsError(
            f"a certificate or key in {origin} (a field ending in -data) is not base64 ({error}): "
            "take it from the cluster again, or name a file"
        ) from error


def _find(
    files: Iterable[tuple[Path, KubeconfigFile]],
    pick: Callable[[KubeconfigFile], Sequence[Any] | None],
    name: str,
    what: str,
) -> _Found[Any]:
    for path, file in files:
        for named in pick(file) or ():
            if named.name == name:
                return _Found(name, named.entry, path)
    raise CredentialsError(
        f"{what} is {name!r}, which does not exist: there are {_names(files, pick)}"
    )


def _names(
    files: Iterable[tuple[Path, KubeconfigFile]],
    pick: Callable[[KubeconfigFile], Sequence[Any] | None],
) -> str:
    names = {named.name: None for _, file in files for named in pick(file) or ()}
    return ", ".join(repr(name) for name in names) or "none"
