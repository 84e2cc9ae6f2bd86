"""Which files of a directory travel with a job: those that its author would commit.

`.gitignore` and `.rayignore` are honoured with git's rules: in every directory, and above it up to the
root of the repository; the deepest file that has a pattern for a path decides. What no job needs is
always left out: version control, virtual environments and caches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from manta.cli.usage import UsageError

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
"""Names of files that often hold secrets."""
TEMPLATES: Final = ("*.example", "*.sample", "*.template", "*.dist")


@dataclass(frozen=True, slots=True)
class Selection:
    files: dict[str, Path]
    """By the name in the package."""
    ignored: int
    """Files and directories that an ignore file leaves out."""

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
    """The files below the directory that travel, in a stable order."""
    walk = _Walk(_spec([*LEFT_OUT, *exclude], "--exclude"), honour=not include_ignored)
    root = directory.resolve()
    walk.enter(directory, "", _above(root) if walk.honour else [])
    return Selection(walk.files, walk.ignored)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one directory's ignore files; paths are relative to it."""

    prefix: str
    """What to put before a path of the package to have it relative to this directory."""
    depth: int
    """How many leading characters of a path of the package are this directory's own."""
    spec: GitIgnoreSpec

    def ignores(self, path: str) -> bool | None:
        """None: no pattern speaks of it."""
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
            return True  # a virtual environment, whatever its name is
        verdicts = (one.ignores(path) for one in reversed(rules))
        ignored = next((verdict for verdict in verdicts if verdict is not None), False)
        self.ignored += ignored
        return ignored


def _above(root: Path) -> list[_Rules]:
    """Rules of the directories above, up to the root of the repository that holds this one."""
    parents = list(root.parents)
    top = next((at for at, one in enumerate(parents) if (one / ".git").exists()), -1)
    if (root / ".git").exists() or top < 0:
        return []
    pairs = [(f"{root.relative_to(one).as_posix()}/", _read(one)) for one in parents[: top + 1]]
    return [
        _Rules(prefix, 0, spec)
        for prefix, spec in reversed(pairs)
        # Whoever names an ignored directory means its files.
        if spec is not None and not spec.match_file(prefix)
    ]


def _read(directory: Path) -> GitIgnoreSpec | None:
    """The patterns of a directory's ignore files: those of `.rayignore` come last, and win."""
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
