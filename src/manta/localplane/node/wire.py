"""Messages between the agent and its helpers: one JSON object a packet, with file descriptors.

All sockets are SOCK_SEQPACKET, so that a message is never torn. Only the standard library: the init
process of every Pod carries this module.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MAX_MESSAGE = 64 * 1024
_MAX_FDS = 8


def send(channel: socket.socket, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    channel.sendmsg([json.dumps(message).encode()], ancillary)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message, or None when the other side is gone."""
    size = socket.CMSG_LEN(_MAX_FDS * array.array("i").itemsize)
    try:
        data, ancillary, _, _ = channel.recvmsg(_MAX_MESSAGE, size, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    if not data:
        return None
    fds = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return json.loads(data), list(fds)


def listen(path: Path) -> socket.socket:
    """A listening socket at `path`, of any length: the kernel's limit of 108 bytes is avoided
    by naming the directory through an open descriptor."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path.unlink(missing_ok=True)
    with _Directory(path.parent) as short:
        channel.bind(f"{short}/{path.name}")
    channel.listen(8)
    return channel


def connect(path: Path) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with _Directory(path.parent) as short:
            channel.connect(f"{short}/{path.name}")
    except OSError:
        channel.close()
        raise
    return channel


class _Directory:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        self._fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}"

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a small JSON file so that a reader sees all of it or the one before."""
    partial = path.with_name(f".{path.name}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(record, file)
    partial.rename(path)


def read_record(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return record if isinstance(record, dict) else None
