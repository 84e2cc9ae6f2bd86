"""Messages between the agent and its helper processes, and small records on disk.

Sockets are SOCK_SEQPACKET: one packet is one message, possibly with file descriptors. Both ends run this
code, so messages are marshalled; JSON would cost each Pod's init 0.25 MB more. Standard library only.
"""

from __future__ import annotations

import json
import marshal
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _socket import socket as _Socket  # noqa: N812 - a type here

_MAX_MESSAGE_BYTES = 64 * 1024
_FORMAT = 4
"""The version of marshal. All supported Pythons read it, so a newer agent can adopt older Pods."""
_RIGHTS_SPACE = socket.CMSG_LEN(8 * 4)
_LEVEL, _RIGHTS, _CLOEXEC = (
    int(socket.SOL_SOCKET),
    int(socket.SCM_RIGHTS),
    int(socket.MSG_CMSG_CLOEXEC),
)


def send(channel: _Socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    rights = [(_LEVEL, _RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    channel.sendmsg([marshal.dumps(message, _FORMAT)], rights)


def receive(channel: _Socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors, or None if the other side has closed."""
    try:
        data, ancillary, _, _ = channel.recvmsg(_MAX_MESSAGE_BYTES, _RIGHTS_SPACE, _CLOEXEC)
    except ConnectionResetError:
        return None
    if not data:
        return None
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == _LEVEL and kind == _RIGHTS:
            fds.extend(struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4]))
    return marshal.loads(data), fds  # noqa: S302 - from our own helper, over a private socket


def listen(directory: str, name: str) -> _Socket:
    """A listening socket in `directory`. Naming the directory by a descriptor avoids the kernel's limit
    of 108 bytes for the path of a socket."""
    from _socket import AF_UNIX, SOCK_SEQPACKET
    from _socket import socket as plain_socket

    if os.access(f"{directory}/{name}", os.F_OK):
        os.unlink(f"{directory}/{name}")  # noqa: PTH108 - see init.py
    channel = plain_socket(AF_UNIX, SOCK_SEQPACKET)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    channel.bind(f"/proc/self/fd/{folder}/{name}")
    os.close(folder)
    channel.listen(8)
    return channel


def accept(listener: _Socket) -> _Socket:
    from _socket import socket as plain_socket

    # The method that the wrapper in socket.py calls; typeshed does not declare it.
    fd, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001
    return plain_socket(fileno=fd)


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
    """Replace a small JSON file atomically."""
    partial = path.with_name(f".{path.name}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(record, file)
    partial.rename(path)


def write_text(path: str, text: str) -> None:
    """Replace a text file atomically, without importing json or pathlib functions."""
    partial = f"{path}.partial"
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(fd, text.encode())
    os.close(fd)
    os.rename(partial, path)  # noqa: PTH104 - see init.py


def read_record(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return record if isinstance(record, dict) else None
