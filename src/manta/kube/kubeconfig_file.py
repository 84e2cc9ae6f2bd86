"""One kubeconfig file: its types, and errors that name the field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.kube.errors import CredentialsError

SECRET_FIELDS = ("token", "password", "data")


class ContextEntry(msgspec.Struct, rename="kebab"):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class ClusterEntry(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure: bool = msgspec.field(default=False, name="insecure-skip-tls-verify")
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] | None = None


class EnvVariable(msgspec.Struct):
    name: str
    value: str = ""


class ExecEntry(msgspec.Struct, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[EnvVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class UserEntry(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    auth_provider: dict[str, Any] | None = None
    exec_: ExecEntry | None = msgspec.field(default=None, name="exec")
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class NamedContext(msgspec.Struct):
    name: str
    entry: ContextEntry = msgspec.field(default_factory=ContextEntry, name="context")


class NamedCluster(msgspec.Struct):
    name: str
    entry: ClusterEntry = msgspec.field(default_factory=ClusterEntry, name="cluster")


class NamedUser(msgspec.Struct):
    name: str
    entry: UserEntry = msgspec.field(default_factory=UserEntry, name="user")


class KubeconfigFile(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    contexts: list[NamedContext] | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None


def read_file(path: Path) -> KubeconfigFile:
    """The file's content. Raises CredentialsError."""
    tree = _without_nulls(_parse(path)) or {}
    try:
        return msgspec.convert(tree, KubeconfigFile)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"kubeconfig {path}: {_explain(tree, str(error))}") from error


def _parse(path: Path) -> Any:
    try:
        text = path.read_bytes()
    except FileNotFoundError as error:
        raise CredentialsError(
            f"kubeconfig {path} does not exist: "
            "name another with --kubeconfig or KUBECONFIG, or run inside a cluster"
        ) from error
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path} cannot be read: {error}") from error
    try:
        return read_yaml(text)
    except DocumentError as error:
        raise CredentialsError(f"kubeconfig {path} is not YAML: {error}") from error


def _without_nulls(value: Any) -> Any:
    """Drop null values: `users: null` means that there are none."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def _explain(tree: Any, message: str) -> str:
    """msgspec's message with the field and, unless it is secret, its value."""
    problem, _, spot = message.partition(" - at `$")
    field = spot.rstrip("`").lstrip(".")
    if not field:
        return f"{problem}: this is not a kubeconfig"
    value = _look_up(tree, field)
    quoting = ": put it in quotes" if "Expected `str`" in problem and _is_scalar(value) else ""
    secret = field.endswith(SECRET_FIELDS)
    shown = f" is {value!r}" if _is_scalar(value) and not secret else ""
    return f"{field}{shown}: {problem}{quoting}"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _look_up(tree: Any, field: str) -> Any:
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", field):
        try:
            tree = tree[int(index)] if index else tree[name]
        except (KeyError, IndexError, TypeError):
            return None
    return tree
