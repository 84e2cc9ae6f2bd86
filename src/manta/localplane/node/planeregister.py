"""Which directories hold planes of this machine: `/run/manta/planes`, one path a line.

Only planes of root are listed: they share the machine's network. Whoever reads it holds a lock, so that
two planes that start at once see each other.
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

PLACE = Path("/run/manta")


class ForeignList(MantaError):  # noqa: N818 - a state of the machine
    """Somebody else can write where the list of planes would be; says the cure."""


class Register:
    def __init__(self, path: Path) -> None:
        self._path = path

    def directories(self) -> list[Path]:
        """Also those that are gone by now: what their planes left is still to be removed."""
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
    place = _writable_place()
    with (place / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield Register(place / "planes")


def _writable_place() -> Path:
    """Some containers have a /run that cannot be written; then a place that always can."""
    try:
        PLACE.mkdir(parents=True, exist_ok=True)
    except OSError:
        instead = Path(tempfile.gettempdir(), "manta-planes")
        instead.mkdir(mode=0o700, exist_ok=True)
        _refuse_foreign(instead)
        return instead
    return PLACE


def _refuse_foreign(place: Path) -> None:
    """Everybody can make a directory there before us, and would name us planes to remove."""
    found = place.lstat()
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
    if not private or found.st_uid != os.geteuid():
        raise ForeignList(
            f"{place} is not a directory of user {os.geteuid()} alone (mode 0700), so it is not used"
            f" for the list of planes: remove it, or make {PLACE} writable"
        )
