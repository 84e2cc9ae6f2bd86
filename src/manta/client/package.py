"""The files of a job, as one zip: a script or a directory.

The zip depends only on names and contents, so the same files give the same package.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import normpath
from typing import Final

from manta.api.text import bytes_text
from manta.api.usage import UsageError
from manta.client.package_files import looks_secret, select

PART_SIZE: Final = 900_000
"""Bytes in one ConfigMap, whose limit is 1 MiB with its metadata."""
LARGEST_IN_CONFIGMAPS: Final = 16 * 1024 * 1024
"""Bytes in all ConfigMaps of a package. The API server holds them in memory and on disk."""
LARGEST: Final = 100 * 1024 * 1024
"""Bytes of all files, before they are zipped."""
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
_PYTHON, _SHELL = re.compile(r"(python|pypy)[0-9.]*"), re.compile(r"bash|sh|dash|zsh")


@dataclass(frozen=True, slots=True)
class Package:
    data: bytes
    what: str
    """Its source and size, for messages."""
    secrets: Sequence[str] = field(default=())
    """Names of files in the package that look like secrets."""

    @property
    def name(self) -> str:
        """The name that Ray stores it under."""
        return f"_ray_pkg_{hashlib.sha1(self.data, usedforsecurity=False).hexdigest()}.zip"

    @property
    def parts(self) -> list[bytes]:
        """Parts that each fit into one ConfigMap."""
        return [self.data[at : at + PART_SIZE] for at in range(0, len(self.data), PART_SIZE)]

    @property
    def fits_configmap(self) -> bool:
        return len(self.data) <= PART_SIZE

    @property
    def fits_configmaps(self) -> bool:
        return len(self.data) <= LARGEST_IN_CONFIGMAPS


def pack(
    command: Sequence[str],
    directory: Path | None,
    exclude: Sequence[str] = (),
    *,
    include_ignored: bool = False,
) -> Package | None:
    """Package the directory if one is given, else the file that the command names, else nothing.

    Raises UsageError if the command names a script that does not exist.
    """
    if directory is not None and not directory.is_dir():
        raise UsageError(f"--working-dir {directory}: no such directory")
    script = script_of(command)
    check_script(script, command, directory)
    try:
        return _packed(script, command, directory, exclude, include_ignored=include_ignored)
    except OSError as error:
        raise UsageError(
            f"{error.filename}: {error.strerror}; exclude it with .rayignore or --exclude"
        ) from error


def pack_module(directory: Path, what: str) -> Package:
    """Package a Python package directory under its own name, for `py_modules`. Raises UsageError."""
    if not directory.is_dir():
        raise UsageError(f"{what}: no such directory")
    name = directory.resolve().name
    try:
        files = select(directory).files
        return _zipped({f"{name}/{inside}": path for inside, path in files.items()}, str(directory))
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error


def _packed(
    script: str,
    command: Sequence[str],
    directory: Path | None,
    exclude: Sequence[str],
    *,
    include_ignored: bool,
) -> Package | None:
    if directory is not None:
        found = select(directory, exclude, include_ignored=include_ignored)
        if script and not script.startswith("/") and normpath(script) not in found.files:
            raise UsageError(
                f"{script} is not in the package: it is outside of {directory}, or a pattern of "
                ".gitignore, .rayignore or --exclude matches it (--include-ignored ignores the first two)"
            )
        left = f", {found.ignored} ignored" if found.ignored else ""
        return _zipped(found.files, str(directory), left)
    return _script_alone(script, command)


def _script_alone(script: str, command: Sequence[str]) -> Package | None:
    files = (word for word in command if not word.startswith("/") and Path(word).is_file())
    named = script if script and script != command[0] else next(files, None)
    if named is None or not Path(named).is_file():  # a file of the image
        return None
    if Path(named).is_absolute() or ".." in Path(named).parts:
        raise UsageError(
            f"{named}: write the path relative to this directory, or give --working-dir DIR "
            "and a path relative to that"
        )
    return _zipped({normpath(named): Path(named)}, named)


def script_of(command: Sequence[str]) -> str:
    """The file that the command runs; empty if it cannot be known without running the command."""
    first = command[0] if command else ""
    program = first.rpartition("/")[2]
    if _PYTHON.fullmatch(program):
        return _first_argument(command[1:], with_value=("-W", "-X"), instead="cm")
    if _SHELL.fullmatch(program):
        return _first_argument(command[1:], with_value=("-o", "-O"), instead="cs")
    return first if "/" in first else ""


def _first_argument(words: Sequence[str], with_value: Sequence[str], instead: str) -> str:
    """The first argument that is no flag. Flags of the letters `instead` run a text, a module or stdin."""
    rest = iter(words)
    for word in rest:
        if word in with_value:
            next(rest, None)
        elif word == "-" or re.fullmatch(rf"-[a-zA-Z]*[{instead}]", word):
            return ""
        elif not word.startswith("-"):
            return word
    return ""


def check_script(script: str, command: Sequence[str], directory: Path | None) -> None:
    """Raise UsageError for a script that is missing, or that is named without its interpreter."""
    where = directory or Path()
    alone = command[0] if command else ""
    if not script and alone.endswith(".py") and (where / alone).is_file():
        raise UsageError(f"{alone} is a script: run it as `python {alone}`")
    if not script or script.startswith("/") or (where / script).is_file():
        return
    raise UsageError(
        f"{script}: no such file in {where.resolve()}. Name a file of this directory, or of "
        f"--working-dir DIR; for a file of the image write its full path (/app/{normpath(script)})"
    )


def _zipped(files: dict[str, Path], what: str, more: str = "") -> Package:
    total = sum(path.stat().st_size for path in files.values())
    if total > LARGEST:
        raise UsageError(
            f"{what}: {total / 1e6:.0f} MB are too large for a package (at most "
            f"{LARGEST / 1e6:.0f} MB): exclude files with .rayignore or --exclude, or put them "
            "into the image or onto a volume"
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            entry = zipfile.ZipInfo(name, _TIMESTAMP)
            entry.external_attr = (0o755 if path.stat().st_mode & 0o100 else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    data = buffer.getvalue()
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    size = f"{bytes_text(total)}, {bytes_text(len(data))} zipped"
    return Package(data, f"{what} ({count}{more}, {size})", tuple(filter(looks_secret, files)))
