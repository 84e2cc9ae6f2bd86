"""Where an API server is and who we are to it: plain values, read by the transport.

Secrets never show in a repr, so that a Cluster can be logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Pem = bytes | Path
"""Certificates and keys: the text itself, or a file that is read again when it may have changed."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the kubeconfig adds."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What it adds them to. Empty: the environment of this process."""
    cluster_info: Mapping[str, Any] | None = field(default=None, repr=False)
    install_hint: str = ""
    needs_terminal: bool = False


@dataclass(frozen=True, slots=True)
class User:
    origin: str = "anonymous"
    """Where this identity was read from, for messages: `user 'admin' of /root/.kube/config`."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Wins over `token`, and is read again and again: such tokens are short-lived."""
    certificate: Pem | None = field(default=None, repr=False)
    key: Pem | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Impersonation."""


@dataclass(frozen=True, slots=True)
class Cluster:
    server: str
    """The base URL, without a slash at its end. It may have a path."""
    user: User = User()
    namespace: str = "default"
    context: str = ""
    origin: str = ""
    """Where it was read from, for messages."""
    ca: Pem | None = field(default=None, repr=False)
    """None: the certificate authorities of this machine."""
    insecure: bool = False
    server_name: str = ""
    """The name that the server's certificate must bear, when it is not the host of the URL."""
    proxy: str = field(default="", repr=False)
    """The HTTP proxy on the way, `http://[user:password@]host:port`."""
