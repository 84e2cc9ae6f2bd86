"""The files of Ray's own frontend, from an installed Ray: of the version that ran, else the nearest."""

from __future__ import annotations

import importlib.util
import mimetypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

_BUILD: Final = Path("dashboard/client/build")
_VERSION = re.compile(r"version\s*=\s*[\"'](\d+)\.(\d+)\.(\d+)")
Version = tuple[int, int, int]


class Frontend(NamedTuple):
    version: Version
    directory: Path

    def file(self, path: str) -> tuple[bytes, str] | None:
        """Content and type of a file; None if there is none below the directory."""
        try:
            wanted = (self.directory / path).resolve()
            if not wanted.is_relative_to(self.directory) or not wanted.is_file():
                return None
        except (OSError, ValueError):  # too long, or with a NUL
            return None
        kind = mimetypes.guess_type(wanted.name)[0] or "application/octet-stream"
        return wanted.read_bytes(), kind


def find_frontends(places: Sequence[Path]) -> list[Frontend]:
    """Every Ray with a frontend: in these environments, and beside this program."""
    packages = [
        ray
        for place in places
        for ray in (*place.glob("lib/python*/site-packages/ray"), place / "ray")
    ]
    spec = importlib.util.find_spec("ray")
    packages += [Path(one) for one in (spec.submodule_search_locations or ())] if spec else []
    found: dict[Version, Frontend] = {}
    for package in packages:
        version = _version(package)
        directory = package / _BUILD
        if version is not None and (directory / "index.html").is_file():
            found.setdefault(version, Frontend(version, directory.resolve()))
    return sorted(found.values())


def _version(package: Path) -> Version | None:
    try:
        found = _VERSION.search((package / "_version.py").read_text())
    except OSError:
        return None
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def nearest(frontends: Sequence[Frontend], wanted: str) -> Frontend | None:
    """The frontend of this Ray version; else the next newer one, else the newest."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", wanted)
    if not frontends:
        return None
    if found is None:
        return frontends[-1]
    version = (int(found[1]), int(found[2]), int(found[3]))
    return next((one for one in frontends if one.version >= version), frontends[-1])
