"""Writes the kubeconfig of a plane."""

from __future__ import annotations

import base64
from pathlib import Path

from manta.localplane.private_files import write_private_file

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
    """Write the file in one step, so that waiting programs can read it. `authority` is PEM text."""
    encoded = base64.b64encode(authority.encode()).decode()
    text = _TEMPLATE.format(name=name, url=url, authority=encoded, user=user, token=token)
    write_private_file(path, text)
