"""From fork to exec: a child of the Pod's init becomes the process of a container.

An error is written as one line of text to `report`, a pipe that exec closes; it becomes the message of a
StartError. Standard library only.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from manta.localplane.node.host import libc
from manta.localplane.node.sandbox.rootfs import build_root

START_ERROR = 128


def run(path: str, stdio: tuple[int, int, int], report: int) -> NoReturn:
    """Set up the container that the file `path` describes, then exec its command."""
    try:
        spec = json.loads(Path(path).read_text())
        Path(path).unlink()  # the environment in it may hold secrets
        _join_cgroups(spec)
        if spec.get("isolated", True):
            libc.unshare(libc.CLONE_NEWNS)
            build_root(spec)
        report = _take_descriptors(stdio, report)
        _become(spec)
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into the loop
        _give_up(report, str(error))


def enter(
    spec: Mapping[str, Any], stdio: tuple[int, int, int], report: int, namespaces: int
) -> NoReturn:
    """Join the mount namespace (an open descriptor, or -1) of a container and exec a command."""
    try:
        _join_cgroups(spec)
        if namespaces >= 0:
            libc.setns(namespaces, libc.CLONE_NEWNS)
        report = _take_descriptors(stdio, report)
        _become(spec)
    except BaseException as error:  # noqa: BLE001 - as above
        _give_up(report, str(error))


def _give_up(report: int, message: str) -> NoReturn:
    try:
        os.write(report, message.encode()[:4000])
    finally:
        os._exit(START_ERROR)


def _join_cgroups(spec: Mapping[str, Any]) -> None:
    for path in spec.get("cgroups", ()):
        (Path(path) / "cgroup.procs").write_text("0")


def _take_descriptors(stdio: tuple[int, int, int], report: int) -> int:
    """Keep stdio and the report pipe, close all other descriptors. Returns the pipe's number."""
    for target, source in enumerate(stdio):
        os.dup2(source, target)
    os.dup2(report, 3, inheritable=False)
    os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return 3


def _become(spec: Mapping[str, Any]) -> NoReturn:
    os.setsid()
    if spec.get("tty"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _reset_signals()
    _enter_directory(spec["cwd"])
    _give_up_rights(spec)
    os.umask(0o022)
    argv, env = spec["argv"], spec["env"]
    program = find_program(argv[0], env.get("PATH", os.defpath))
    try:
        os.execve(program, argv, env)
    except OSError as error:
        raise OSError(f'exec: "{argv[0]}": {os.strerror(error.errno or 0)}') from error


def _reset_signals() -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _enter_directory(cwd: str) -> None:
    try:
        Path(cwd).mkdir(parents=True, exist_ok=True)
        os.chdir(cwd)
    except OSError as error:
        raise OSError(f'working directory "{cwd}": {os.strerror(error.errno or 0)}') from error


def _give_up_rights(spec: Mapping[str, Any]) -> None:
    kept = spec.get("capabilities")
    if kept is not None:
        libc.limit_capabilities(kept)
    _drop_to_user(spec)
    if kept is not None:
        libc.set_capabilities(kept)
    if spec.get("no_new_privs"):
        libc.forbid_new_privileges()


def _drop_to_user(spec: Mapping[str, Any]) -> None:
    if (groups := spec.get("groups")) is not None:
        os.setgroups(groups)
    if (gid := spec.get("gid")) is not None:
        os.setgid(gid)
    if (uid := spec.get("uid")) is not None:
        os.setuid(uid)


def find_program(name: str, path: str) -> str:
    """The path that exec would use for `name`. Raises OSError with the message of runc."""
    if not name:
        raise OSError("no command was given")
    if "/" in name:
        return name
    for directory in path.split(os.pathsep):
        candidate = Path(directory, name)
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    raise OSError(f'exec: "{name}": executable file not found in $PATH')
