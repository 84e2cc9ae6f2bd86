"""What of this machine a job takes along: a script, or a directory, as one small zip.

The zip depends on nothing but names and contents, so that the same files make the same package.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from manta.cli.usage import UsageError

LEFT_OUT: Final = (
    ".git",
    ".venv",
    "venv",
    "__pycache__",
    "node_modules",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "*.pyc",
)
LARGEST_IN_CONFIGMAP: Final = 900_000
"""Kubernetes holds at most 1 MiB in a ConfigMap, its metadata included."""
LARGEST: Final = 100 * 1024 * 1024
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Package:
    data: bytes
    what: str

    @property
    def name(self) -> str:
        """The name under which Ray keeps it."""
        return f"_ray_pkg_{hashlib.sha1(self.data, usedforsecurity=False).hexdigest()}.zip"

    @property
    def fits_configmap(self) -> bool:
        return len(self.data) <= LARGEST_IN_CONFIGMAP


def pack(
    command: Sequence[str], directory: Path | None, exclude: Sequence[str] = ()
) -> Package | None:
    """The directory if one is given; else the file that the command names; else nothing."""
    if directory is not None:
        if not directory.is_dir():
            raise UsageError(f"--working-dir {directory}: there is no such directory")
        files = dict(_files_in(directory, (*LEFT_OUT, *exclude)))
        return _zipped(files, f"{directory} ({len(files)} files)")
    script = next((word for word in command if Path(word).is_file()), None)
    if script is None:
        return None
    if Path(script).is_absolute() or ".." in Path(script).parts:
        raise UsageError(
            f"{script}: name the script relative to this directory, or give --working-dir DIR "
            "and name it relative to that"
        )
    return _zipped({script: Path(script)}, script)


def _files_in(directory: Path, left_out: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for path in sorted(directory.rglob("*")):
        inside = path.relative_to(directory)
        skipped = any(fnmatch(part, pattern) for part in inside.parts for pattern in left_out)
        if path.is_file() and not skipped:
            yield inside.as_posix(), path


def _zipped(files: dict[str, Path], what: str) -> Package:
    total = sum(path.stat().st_size for path in files.values())
    if total > LARGEST:
        raise UsageError(
            f"{what}: {total / 1e6:.0f} MB are too much to take along (at most "
            f"{LARGEST / 1e6:.0f} MB): leave files out with --exclude, or put them into the image "
            "or onto a volume"
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return Package(buffer.getvalue(), what)
