"""The kubeconfig that a plane hands out: written whole, readable by its owner only."""

from __future__ import annotations

import base64
import os
from pathlib import Path

_TEMPLATE = """\
apiVersion: v1
kind: Config
current-context: {name}
clusters:
- name: {name}
  cluster:
    server: {url}
    certificate-authority-data: {authority}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {user}
    namespace: default
users:
- name: {user}
  user:
    token: {token}
"""


def write_kubeconfig(
    path: Path, *, url: str, authority: str, token: str, user: str = "admin", name: str = "manta"
) -> None:
    """`authority` is PEM text. The file appears in one step, so whoever waits for it can read it."""
    encoded = base64.b64encode(authority.encode()).decode()
    text = _TEMPLATE.format(name=name, url=url, authority=encoded, user=user, token=token)
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
