"""The list of plane directories on this machine: `/run/manta/planes`, one path a line.

It lists only planes of root, because they share the machine's network. Readers hold a lock, so that two
planes that start at the same time see each other.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manta.kube.errors import MantaError

DIRECTORY = Path("/run/manta")


class UntrustedRegister(MantaError):  # noqa: N818 - a state of the machine
    """Another user can write to the directory of the list; the message says what to do."""


class Register:
    def __init__(self, path: Path) -> None:
        self._path = path

    def directories(self) -> list[Path]:
        """All listed directories, also removed ones: their planes may have left something behind."""
        try:
            return [Path(line) for line in self._path.read_text().splitlines() if line]
        except FileNotFoundError:
            return []

    def others(self, directory: Path) -> list[Path]:
        return [one for one in self.directories() if one != directory]

    def add(self, directory: Path) -> None:
        self._write([*self.others(directory), directory])

    def remove(self, directory: Path) -> None:
        self._write(self.others(directory))

    def _write(self, directories: list[Path]) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(f"{one}\n" for one in directories))
        fresh.replace(self._path)


@contextmanager
def locked() -> Iterator[Register]:
    """The register, locked inside the `with`. Raises UntrustedRegister."""
    directory = _writable_directory()
    with (directory / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield Register(directory / "planes")


def _writable_directory() -> Path:
    """Below the temporary directory in containers whose /run is read-only."""
    try:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
    except OSError:
        fallback = Path(tempfile.gettempdir(), "manta-planes")
        fallback.mkdir(mode=0o700, exist_ok=True)
        _check_private(fallback)
        return fallback
    return DIRECTORY


def _check_private(directory: Path) -> None:
    """Another user could have created it first, and list directories for us to remove."""
    found = directory.lstat()
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
    if not private or found.st_uid != os.geteuid():
        raise UntrustedRegister(
            f"{directory} is not private to user {os.geteuid()} (mode 0700), so it is not used"
            f" for the list of planes: remove it, or make {DIRECTORY} writable"
        )
