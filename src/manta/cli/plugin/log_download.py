"""Downloads the logs of one Pod: those of its containers, and Ray's log files of all sessions.

Everything is written to disk as it arrives; no log is held in memory.
"""

from __future__ import annotations

import asyncio
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.kube.errors import ApiError, BadRequest, MantaError
from manta.kube.streams import exec_stream
from manta.kube.transport import UpgradingTransport

CHUNK_BYTES: Final = 256 * 1024
FIRST_LOG: Final = "stdout.log"
_ARCHIVE: Final = """
import os, sys, tarfile
root = os.environ.get("RAY_TMPDIR") or "/tmp/ray"
out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
latest = os.path.basename(os.path.realpath(os.path.join(root, "session_latest")))
for name in sorted(os.listdir(root)) if os.path.isdir(root) else ():
    logs = os.path.join(root, name, "logs")
    if not name.startswith("session_") or name == "session_latest" or not os.path.isdir(logs):
        continue
    for folder, _, files in os.walk(logs):
        for file in files:
            path = os.path.join(folder, file)
            inside = os.path.relpath(path, logs)
            where = inside if name == latest else os.path.join(name, inside)
            try:
                info = out.gettarinfo(path, where)
                if not info.isfile():
                    continue
                with open(path, "rb") as source:
                    left = info.size
                    out.fileobj.write(info.tobuf(out.format, out.encoding, out.errors))
                    while left:
                        piece = source.read(min(left, 65536)) or b"\\0" * min(left, 65536)
                        out.fileobj.write(piece)
                        left -= len(piece)
                    out.fileobj.write(b"\\0" * (-info.size % 512))
                    out.offset += 512 + info.size + (-info.size % 512)
            except OSError as error:
                print(error, file=sys.stderr)
out.close()
"""
"""Runs in the container, whose image has Python because it has Ray; `tar` it need not have. A file
that shrinks while it is read is filled up, as its size is already sent."""


async def download_pod(client: Client, key: Key, pod: dict[str, Any], out: Path) -> list[str]:
    """Write the logs of a Pod below `out`. Returns what failed, one text each."""
    failures: list[str] = []
    for number, container in enumerate(_started(pod)):
        name = FIRST_LOG if number == 0 else f"{container}.log"
        try:
            await _container_log(client, key, container, out / name)
        except (MantaError, OSError) as error:
            failures.append(f"pod/{key.name}, container {container}: {error}")
    try:
        await _session_logs(client, key, pod["spec"]["containers"][0]["name"], out)
    except (MantaError, OSError, tarfile.TarError) as error:
        failures.append(f"pod/{key.name}, files of Ray: {error}")
    return failures


def _started(pod: dict[str, Any]) -> Iterator[str]:
    """The containers, the Ray container first, then those of initialisation that have run."""
    for one in pod["spec"]["containers"]:
        yield one["name"]
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    for one in statuses:
        if {"running", "terminated"} & set(one.get("state") or {}):
            yield one["name"]


async def _container_log(client: Client, key: Key, container: str, file: Path) -> None:
    path = PODS.path(key.namespace, key.name, "log")
    try:
        async with client.stream(path, query=(("container", container),)) as stream:
            with file.open("wb") as sink:
                async for chunk in stream.chunks():
                    sink.write(chunk)
    except BadRequest as error:
        raise ApiError(error.status, error.reason, f"{error.message} (has it started?)") from error


async def _session_logs(client: Client, key: Key, container: str, out: Path) -> None:
    """Ray's files: those of the latest session directly below `out`, others in directories."""
    transport = client.transport
    if not isinstance(transport, UpgradingTransport):
        raise MantaError("this connection cannot be upgraded to a stream")
    command = ("python", "-c", _ARCHIVE)
    async with exec_stream(transport, key, command, container=container) as session:
        reading, writing = os.pipe()
        unpacking = asyncio.create_task(asyncio.to_thread(_unpack_and_close, reading, out))
        errors = b""
        try:
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                async for output in session.output():
                    if output.stream == "stderr":
                        errors = (errors + output.data)[-2000:]
                    else:
                        await asyncio.to_thread(_write, pipe, output.data, unpacking)
        finally:
            await asyncio.wait({unpacking})
        unpacking.result()
    if session.exit_code:
        text = errors.decode("utf-8", "replace").strip()
        raise MantaError(f"the command in the container ended with {session.exit_code}: {text}")


def _write(pipe: IO[bytes], data: bytes, unpacking: asyncio.Task[None]) -> None:
    """A pipe makes the sender wait while the disk is slow."""
    try:
        while data:
            data = data[pipe.write(data) :]
    except BrokenPipeError:
        if not unpacking.done():
            raise


def _unpack_and_close(reading: int, out: Path) -> None:
    with os.fdopen(reading, "rb") as source:
        try:
            unpack(source, out)
        finally:
            while source.read(CHUNK_BYTES):  # so that the sender is never stuck
                pass


def unpack(source: IO[bytes], out: Path) -> None:
    """Write the regular files of a tar stream below `out`. Other entries are left out.

    The archive comes from a container, which is not trusted: names that lead out are refused.
    """
    with tarfile.open(fileobj=source, mode="r|") as archive:
        for entry in archive:
            if not entry.isfile():
                continue
            file = out / safe_path(entry.name)
            file.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(entry)
            assert content is not None  # a regular file has a content
            if file.is_symlink():
                file.unlink()
            with file.open("wb") as sink:
                while piece := content.read(CHUNK_BYTES):
                    sink.write(piece)


def safe_path(name: str) -> Path:
    """A relative path without `..`. Raises tarfile.TarError for any other."""
    path = PurePosixPath(name)
    parts = [part for part in path.parts if part != "."]
    odd = any(part == ".." or "\\" in part or ":" in part for part in parts)
    if path.is_absolute() or odd or not parts:
        raise tarfile.TarError(f"the archive has the unsafe name {name!r}")
    return Path(*parts)
