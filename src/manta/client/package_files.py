"""Which files of a directory belong to the package of a job.

`.gitignore` and `.rayignore` apply with git's rules: in every directory, and in its parents up to the
root of the repository; the deepest file that matches a path decides. Version control, virtual
environments and caches are never packaged.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from manta.api.usage import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

LEFT_OUT: Final = (
    ".git/",
    ".hg/",
    ".svn/",
    ".venv/",
    "venv/",
    "__pycache__/",
    "node_modules/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".tox/",
    ".nox/",
    ".ipynb_checkpoints/",
    "*.pyc",
    ".DS_Store",
)
IGNORE_FILES: Final = (".gitignore", ".rayignore")
SECRETS: Final = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".pypirc",
    ".npmrc",
    "credentials",
    "credentials.json",
    "kubeconfig",
)
"""Names of files that often contain secrets."""
TEMPLATES: Final = ("*.example", "*.sample", "*.template", "*.dist")


@dataclass(frozen=True, slots=True)
class Selection:
    files: dict[str, Path]
    """By name in the package."""
    ignored: int
    """Number of files and directories that an ignore file excludes."""

    @property
    def secrets(self) -> list[str]:
        return [name for name in self.files if looks_secret(name)]


def looks_secret(name: str) -> bool:
    last = name.rpartition("/")[2].lower()
    matches = any(fnmatchcase(last, one) for one in SECRETS)
    return matches and not any(fnmatchcase(last, one) for one in TEMPLATES)


def select(
    directory: Path, exclude: Sequence[str] = (), *, include_ignored: bool = False
) -> Selection:
    """The files of the package in the directory, in a stable order. Raises UsageError for a bad pattern."""
    walk = _Walk(_spec([*LEFT_OUT, *exclude], "--exclude"), honour=not include_ignored)
    root = directory.resolve()
    walk.enter(directory, "", _above(root) if walk.honour else [])
    return Selection(walk.files, walk.ignored)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of the ignore files of one directory; paths are relative to it."""

    prefix: str
    """Goes before a path of the package, to make it relative to this directory."""
    depth: int
    """Number of leading characters of a path of the package that name this directory."""
    spec: GitIgnoreSpec

    def ignores(self, path: str) -> bool | None:
        """None: no pattern matches."""
        return self.spec.check_file(self.prefix + path[self.depth :]).include


class _Walk:
    def __init__(self, always: GitIgnoreSpec, *, honour: bool) -> None:
        self.files: dict[str, Path] = {}
        self.ignored = 0
        self.honour = honour
        self._always = always

    def enter(self, directory: Path, inside: str, rules: list[_Rules]) -> None:
        if self.honour and (spec := _read(directory)) is not None:
            rules = [*rules, _Rules("", len(inside), spec)]
        for entry in sorted(os.scandir(directory), key=lambda one: one.name):
            whole = entry.is_dir(follow_symlinks=False)
            path = f"{inside}{entry.name}{'/' if whole else ''}"
            if self._leaves_out(entry, path, rules):
                continue
            if whole:
                self.enter(Path(entry.path), path, rules)
            elif entry.is_file():
                self.files[path] = Path(entry.path)

    def _leaves_out(self, entry: os.DirEntry[str], path: str, rules: list[_Rules]) -> bool:
        if self._always.match_file(path):
            return True
        if path.endswith("/") and (Path(entry.path) / "pyvenv.cfg").is_file():
            return True  # a virtual environment of any name
        verdicts = (one.ignores(path) for one in reversed(rules))
        ignored = next((verdict for verdict in verdicts if verdict is not None), False)
        self.ignored += ignored
        return ignored


def _above(root: Path) -> list[_Rules]:
    """Rules of the parent directories, up to the root of the repository."""
    parents = list(root.parents)
    top = next((at for at, one in enumerate(parents) if (one / ".git").exists()), -1)
    if (root / ".git").exists() or top < 0:
        return []
    pairs = [(f"{root.relative_to(one).as_posix()}/", _read(one)) for one in parents[: top + 1]]
    return [
        _Rules(prefix, 0, spec)
        for prefix, spec in reversed(pairs)
        # A user who names an ignored directory wants its files.
        if spec is not None and not spec.match_file(prefix)
    ]


def _read(directory: Path) -> GitIgnoreSpec | None:
    """The patterns of a directory's ignore files. Those of `.rayignore` come last and win."""
    lines: list[str] = []
    for name in IGNORE_FILES:
        if (directory / name).is_file():
            lines += (directory / name).read_text(errors="replace").splitlines()
    return _spec(lines, f"{directory}/({'|'.join(IGNORE_FILES)})") if lines else None


def _spec(lines: Iterable[str], origin: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise UsageError(f"{origin}: {error}; correct the pattern") from error
