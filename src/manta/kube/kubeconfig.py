"""Merges kubeconfig files and resolves a context to a Cluster.

As kubectl does: of several files the first that defines an entry wins, missing files of a list are skipped,
and relative paths start at the directory of their file. Errors name the file, the field, its value (unless
secret) and what to do.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from manta.api.well_known import EXTENSION_EXEC_CONFIG
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


@dataclass(frozen=True, slots=True)
class _Found(Generic[E]):
    """An entry and its file; relative paths start at the file's directory."""

    name: str
    entry: E
    file: Path

    def path(self, text: str) -> Path:
        return self.file.parent / text


def load_files(
    paths: Sequence[Path],
    context: str | None,
    environment: Mapping[str, str],
    *,
    cluster: str = "",
    user: str = "",
) -> Cluster:
    """The cluster of `context`, by default of the current context. Raises CredentialsError.

    `cluster` and `user` name entries that replace those of the context.
    """
    files = [(path, read_file(path)) for path in paths if len(paths) == 1 or path.exists()]
    if not files:
        tried = ", ".join(str(path) for path in paths)
        raise CredentialsError(f"none of these kubeconfig files exists: {tried}")
    where = ", ".join(str(path) for path, _ in files)
    name = context or next((file.current_context for _, file in files if file.current_context), "")
    if not name and cluster:  # as kubectl: a cluster alone is enough
        entry = ContextEntry(cluster=cluster, user=user)
        return _resolve(files, _Found("", entry, files[0][0]), environment)
    if not name:
        raise CredentialsError(
            f"kubeconfig {where} has no current-context: name one of "
            f"{_names(files, lambda file: file.contexts)}, or run `kubectl config use-context`"
        )
    chosen = _find(files, lambda file: file.contexts, name, f"context of {where}")
    entry = msgspec.structs.replace(
        chosen.entry, cluster=cluster or chosen.entry.cluster, user=user or chosen.entry.user
    )
    return _resolve(files, _Found(chosen.name, entry, chosen.file), environment)


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
    _reject_removed_authentication(entry, origin)
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
        headers=impersonation(entry.as_, entry.as_uid),
        repeated=impersonated_groups(entry.as_groups or (), entry.as_user_extra or {}),
    )


def _reject_removed_authentication(entry: UserEntry, origin: str) -> None:
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


def impersonation(user: str, uid: str) -> dict[str, str]:
    """Headers that occur once."""
    named = {"impersonate-user": user, "impersonate-uid": uid}
    return {name: value for name, value in named.items() if value}


def impersonated_groups(
    groups: Sequence[str], extra: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, str], ...]:
    """Headers that occur once per group and per value of an extra key."""
    keys = {key: f"impersonate-extra-{quote(key, safe='').lower()}" for key in extra}
    pairs = [(keys[key], value) for key, values in extra.items() for value in values]
    return (*(("impersonate-group", group) for group in groups), *pairs)


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
    # As kubectl: a bare name is searched in PATH, a name with a slash is a path.
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
    """What a plugin gets with `provideClusterInfo`. Contains no secret."""
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
    info["config"] = extension.get(EXTENSION_EXEC_CONFIG)
    return {name: value for name, value in info.items() if value}


def _pem(found: _Found[Any], data: str, file: str, origin: str) -> Pem | None:
    """The PEM data, else the path of the file. Raises CredentialsError."""
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
