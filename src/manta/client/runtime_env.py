"""A runtime environment whose local files are replaced by what a cluster can read.

Ray's own client does the same before it submits a job: requirement files become lists, directories
become packages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.api.usage import UsageError
from manta.client.package import Package, pack, pack_module

_URI: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class Upload:
    """A package that must be uploaded before the job is submitted."""

    name: str
    data: bytes = field(repr=False)
    what: str

    @property
    def uri(self) -> str:
        return f"gcs://{self.name}"


@dataclass(frozen=True, slots=True)
class LocalEnvironment:
    env: Mapping[str, Any]
    """The runtime environment as Ray gets it."""
    uploads: Sequence[Upload] = ()


def is_uri(text: str) -> bool:
    return bool(_URI.match(text))


def resolve(env: Mapping[str, Any], command: Sequence[str], base: Path) -> LocalEnvironment:
    """Read and package the local files of an environment; relative paths start at `base`.

    Raises UsageError if one does not exist.
    """
    changed, uploads = dict(env), list[Upload]()
    for name in ("pip", "uv"):
        if name in changed:
            changed[name] = _requirements(changed[name], name, base)
    if isinstance(changed.get("conda"), str):
        changed["conda"] = _conda(changed["conda"], base)
    excludes = changed.pop("excludes", None) or ()
    if changed.get("working_dir"):
        changed["working_dir"] = _working_dir(changed, command, base, excludes, uploads)
    if changed.get("py_modules"):
        changed["py_modules"] = [_module(one, base, uploads) for one in changed["py_modules"]]
    return LocalEnvironment(changed, uploads)


def _requirements(value: Any, name: str, base: Path) -> Any:
    """`pip: requirements.txt` as the list of its lines."""
    if isinstance(value, dict) and isinstance(value.get("packages"), str):
        return {**value, "packages": _lines(value["packages"], f"{name}.packages", base)}
    return _lines(value, name, base) if isinstance(value, str) else value


def _lines(file: str, field_name: str, base: Path) -> list[str]:
    text = _read(base / file, f"runtime env: {field_name}: {file}").decode("utf-8", "replace")
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _conda(value: str, base: Path) -> Any:
    """`conda: env.yaml` as its content; another text is the name of an environment."""
    if Path(value).suffix not in (".yml", ".yaml"):
        return value
    try:
        return read_yaml(_read(base / value, f"runtime env: conda: {value}"))
    except DocumentError as error:
        raise UsageError(f"runtime env: conda: {value} is not valid YAML: {error}") from error


def _working_dir(
    env: Mapping[str, Any],
    command: Sequence[str],
    base: Path,
    excludes: Sequence[str],
    uploads: list[Upload],
) -> str:
    given = str(env["working_dir"])
    if is_uri(given):
        return given
    path = base / Path(given).expanduser()
    if path.suffix in (".zip", ".jar") and path.is_file():
        package = Package(_read(path, f"--working-dir {given}"), given)
    else:
        packed = pack(command, path, tuple(excludes))
        assert packed is not None  # a directory always gives a package
        package = packed
    uploads.append(Upload(package.name, package.data, package.what))
    return uploads[-1].uri


def _module(given: str, base: Path, uploads: list[Upload]) -> str:
    if is_uri(str(given)):
        return str(given)
    path = base / Path(given).expanduser()
    if path.suffix == ".whl":
        data = _read(path, f"runtime env: py_modules: {given}")
        uploads.append(Upload(path.name, data, given))
    else:
        package = pack_module(path, f"runtime env: py_modules: {given}")
        uploads.append(Upload(package.name, package.data, package.what))
    return uploads[-1].uri


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror}") from error
