"""Run a client.authentication.k8s.io plugin and read the credential that it prints."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from manta.api.times import parse_time
from manta.kube.cluster import ExecPlugin
from manta.kube.errors import CredentialsError

EXEC_INFO = "KUBERNETES_EXEC_INFO"
SUPPORTED = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MAX_RUN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PluginCredential:
    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


async def run(
    plugin: ExecPlugin, origin: str, *, limit: float = MAX_RUN_SECONDS
) -> PluginCredential:
    """The credential that the plugin prints. Raises CredentialsError, which names `origin`."""
    who = f"exec plugin {plugin.command!r} of {origin}"
    if plugin.needs_terminal:
        raise CredentialsError(f"{who} has interactiveMode Always; log in by hand and use a token")
    # A plugin inherits our environment, unread.
    inherited = plugin.environment or os.environ  # noqa: TID251
    path = shutil.which(plugin.command, path=inherited.get("PATH"))
    if path is None:
        cure = plugin.install_hint.strip() or "install it, or put its directory into PATH"
        raise CredentialsError(f"{who} was not found: {cure}")
    environment = {**inherited, **plugin.env, EXEC_INFO: exec_info(plugin)}
    output = await _output([path, *plugin.args], environment, who, limit)
    return read_credential(output, plugin.api_version, who)


def exec_info(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster_info is not None:
        spec["cluster"] = dict(plugin.cluster_info)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def read_credential(output: bytes, api_version: str, who: str) -> PluginCredential:
    """The credential in a plugin's output. Raises CredentialsError."""
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.MsgspecError as error:
        raise CredentialsError(f"{who} printed no ExecCredential: {error}") from error
    if answer.kind != "ExecCredential" or answer.api_version != api_version:
        raise CredentialsError(
            f"{who} printed {answer.kind} of {answer.api_version}, "
            f"but apiVersion of its exec section is {api_version}: make them agree"
        )
    status = answer.status or _Status()
    if not status.token and not status.client_certificate_data:
        raise CredentialsError(f"{who} printed neither status.token nor a client certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialsError(f"{who} printed one of certificate and key without the other")
    return PluginCredential(
        status.token,
        status.client_certificate_data.encode(),
        status.client_key_data.encode(),
        _expiry(status.expiration_timestamp, who),
    )


def _expiry(text: str | None, who: str) -> datetime | None:
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise CredentialsError(f"{who}: status.expirationTimestamp: {error}") from error


async def _output(command: list[str], env: Mapping[str, str], who: str, limit: float) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise CredentialsError(f"{who} cannot be run: {error.strerror}") from error
    try:
        async with asyncio.timeout(limit):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise CredentialsError(f"{who} did not finish within {limit:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        stderr = " ".join(complaint.decode(errors="replace").split())[-400:]
        raise CredentialsError(f"{who} failed with exit status {process.returncode}: {stderr}")
    return output
