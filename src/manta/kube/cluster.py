"""Address of an API server and the user to connect as. A repr shows no secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Pem = bytes | Path
"""A certificate or key: its text, or a file that is read again when it may have changed."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the kubeconfig sets."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment that they are added to; empty: that of this process."""
    cluster_info: Mapping[str, Any] | None = field(default=None, repr=False)
    install_hint: str = ""
    needs_terminal: bool = False


@dataclass(frozen=True, slots=True)
class User:
    origin: str = "anonymous"
    """For messages: `user 'admin' in /root/.kube/config`."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Wins over `token`. Read again every minute: such tokens are short-lived."""
    certificate: Pem | None = field(default=None, repr=False)
    key: Pem | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Impersonation."""
    repeated: tuple[tuple[str, str], ...] = ()
    """Impersonation: headers that occur once per group and per value."""


@dataclass(frozen=True, slots=True)
class Cluster:
    server: str
    """The base URL without a trailing slash; it may have a path."""
    user: User = User()
    namespace: str = "default"
    context: str = ""
    origin: str = ""
    """Where the cluster is defined, for messages."""
    ca: Pem | None = field(default=None, repr=False)
    """None: the certificate authorities of this machine."""
    insecure: bool = False
    server_name: str = ""
    """The name in the server's certificate, if it is not the URL's host."""
    proxy: str = field(default="", repr=False)
    """The HTTP proxy, `http://[user:password@]host:port`."""
