"""Take each guard away, in a copy of this repository, and see its tests go red.

python -m tools.knownbugs.check [NUMBER ...]      run and print
python -m tools.knownbugs.check --real 20 81      the tests with real Ray too (root, Linux)
python -m tools.knownbugs.check --write           also write docs/internals/known-bugs.md

A test that stays green without its guard guards nothing. The copy is a worktree of HEAD below /tmp,
removed at the end; the tree that you work in is never touched. Without --real, tests with real Ray
are named and not run. About ten minutes on one core.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.knownbugs.clusters import GUARDS as CLUSTER_GUARDS
from tools.knownbugs.guard import Guard
from tools.knownbugs.parents import GUARDS as PARENT_GUARDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/internals/known-bugs.md"
GUARDS = tuple(sorted((*CLUSTER_GUARDS, *PARENT_GUARDS), key=lambda one: one.number))
SECONDS = 240
SECONDS_WITH_RAY = 900
_NAMED = re.compile(r"def (test(?:_c\d\d)+_\w+)")
_FAILED = re.compile(r"^FAILED (\S+?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    guard: Guard
    tests: tuple[str, ...]
    """All that bear the number."""
    red: tuple[str, ...]
    """Those that failed without the guard."""
    trouble: str = ""

    @property
    def word(self) -> str:
        if self.trouble:
            return self.trouble
        if self.red:
            return "yes"
        if not self.guard.real:
            return "NO"
        return f"yes, by hand {self.guard.seen}" if self.guard.seen else "real Ray: not tried"


def tests_of(number: int, root: Path) -> dict[str, list[str]]:
    """The names of the tests that bear a number, by file."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        names = [one for one in _NAMED.findall(path.read_text()) if f"_c{number:02}_" in one]
        if names:
            found[str(path.relative_to(root))] = names
    return found


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="manta-guards-")) / "copy"
    _git(root, "worktree", "add", "--quiet", "--detach", str(place), "HEAD")
    try:
        yield place
    finally:
        _git(root, "worktree", "remove", "--force", str(place))
        shutil.rmtree(place.parent, ignore_errors=True)


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True)


def _must_compile(file: str, text: str) -> None:
    """A cut that leaves no program shows nothing."""
    if file.endswith(".py"):
        try:
            compile(text, file, "exec")
        except SyntaxError as error:
            raise LookupError(f"{file} is no program without its guard: {error}") from error


@contextmanager
def without(guard: Guard, root: Path) -> Iterator[None]:
    before = {file: (root / "src/manta" / file).read_text() for file, _, _ in guard.cuts}
    after = dict(before)
    for file, words, instead in guard.cuts:
        if words not in after[file]:
            raise LookupError(f"{file} no longer says {words.strip()!r}")
        after[file] = after[file].replace(words, instead)
    for file, text in after.items():
        _must_compile(file, text)
    try:
        for file, text in after.items():
            (root / "src/manta" / file).write_text(text)
        yield
    finally:
        for file, text in before.items():
            (root / "src/manta" / file).write_text(text)


def examine(guard: Guard, root: Path, *, real: bool) -> Verdict:
    """`real`: if only real Ray shows the bug, run the tests with real Ray."""
    with_ray = real and guard.real
    named = tests_of(guard.number, root)
    all_of_them = tuple(name for names in named.values() for name in names)
    files = [file for file in named if with_ray or not file.startswith("tests/e2e")]
    if not files:
        return Verdict(guard, all_of_them, ())
    try:
        with without(guard, root):
            seconds = SECONDS_WITH_RAY if with_ray else SECONDS
            return Verdict(guard, all_of_them, _run(root, guard.number, files, seconds))
    except (LookupError, subprocess.TimeoutExpired) as error:
        return Verdict(guard, all_of_them, (), str(error))


def _run(root: Path, number: int, files: Sequence[str], seconds: int) -> tuple[str, ...]:
    words = ["-q", "-x", "-p", "no:cacheprovider", "--tb=no", "-k", f"_c{number:02}_", *files]
    ended = subprocess.run(  # our own interpreter
        [sys.executable, "-m", "pytest", *words],
        cwd=root,
        env=_environment(root),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    found = _FAILED.findall(ended.stdout)
    if not found and ended.returncode not in (0, 1):
        raise LookupError(f"pytest ended with {ended.returncode}: {ended.stdout[-300:]}")
    return tuple(one.partition("[")[0].rpartition("::")[2] for one in found)


def _environment(root: Path) -> dict[str, str]:
    import os

    paths = [str(root / "src"), str(root / "tests"), str(root)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def page(verdicts: Sequence[Verdict]) -> str:
    rows = "\n".join(_row(one) for one in verdicts)
    return f"""\
# Known bugs of KubeRay, and what keeps us from them

The numbers are those of a list of bugs that users of KubeRay reported. Each has tests whose names contain it
(`test_c04_...`) and a guard in our code. `python -m tools.knownbugs.check` takes each guard away, in
a copy, and runs the tests of its number: *red* says whether one of them failed. The cuts themselves are
in `tools/knownbugs/`. Where only real Ray shows the bug, the test is in `tests/e2e`. Which tests are smaller than the
list proposes, and why: [sizes](known-bugs-sizes.md).

| Number | Bug | Guard | Where | Red | By |
|---|---|---|---|---|---|
{rows}
"""


def _row(one: Verdict) -> str:
    files = ", ".join(dict.fromkeys(f"`{file}`" for file, _, _ in one.guard.cuts))
    by = one.red or one.tests
    tests = f"`{by[0]}`" if by else ""
    cells = (f"C{one.guard.number:02}", one.guard.bug, one.guard.guard, files, one.word, tests)
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--real", action="store_true", help="run the tests with real Ray too")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    chosen = [one for one in GUARDS if not args.numbers or one.number in args.numbers]
    verdicts = []
    with copy_of(ROOT) as root:
        for one in chosen:
            verdicts.append(examine(one, root, real=args.real))
            print(_row(verdicts[-1]), flush=True)
    print(f"{len(verdicts)} guards, {sum(bool(one.red) for one in verdicts)} red")
    if args.write:
        PAGE.write_text(page(verdicts))
    return 0 if all(one.red or one.guard.real for one in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
