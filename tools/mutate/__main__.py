"""`python -m tools.mutate`: a random sample of mutants against the tests that cover them.

Prints the score by package and the survivors; the whole result is written as JSON. Verdicts are kept as
they come, so that a campaign can run in pieces: `--resume` continues with the same seed and sample.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import msgspec
import pytest

from tools.mutate.mutations import Mutant, mutants_of
from tools.mutate.report import as_document, table
from tools.mutate.selection import runs_at_import, work_for
from tools.mutate.test_map import CACHE, CHOSEN_SUITES, PACKAGES, ROOT, load_map, sources, suites
from tools.mutate.workers import Loop, Verdict, is_inside_functions, run_fresh

_KEPT = CACHE / "verdicts.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    os.environ |= {"CI": "1", "HYPOTHESIS_STORAGE_DIRECTORY": str(CACHE / "hypothesis")}
    if args.worker:
        return _work(args.worker, Path(args.mutants), args.workers)
    if args.suite:
        os.environ[CHOSEN_SUITES] = " ".join(args.suite)
    chosen = _chosen(args)
    began = time.monotonic()
    if not args.resume:
        _KEPT.unlink(missing_ok=True)
    _run_left(chosen, args)
    return _print(args, chosen, round(time.monotonic() - began, 1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants (0: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", choices=PACKAGES, action="append", help="only of these")
    parser.add_argument("--path", action="append", help="only of files whose path contains this")
    parser.add_argument("--suite", action="append", help="only tests of these files or folders")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long (0: never)")
    parser.add_argument("--resume", action="store_true", help="keep the verdicts of the last run")
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--fail-under", type=float, default=0, help="percent")
    parser.add_argument("--worker", choices=("inside", "fresh", "again"), help=argparse.SUPPRESS)
    parser.add_argument("--mutants", default="", help=argparse.SUPPRESS)
    return parser


def _chosen(args: argparse.Namespace) -> list[Mutant]:
    every = [
        mutant
        for path in sources()
        for mutant in mutants_of(str(path.relative_to(ROOT)), path.read_text())
    ]
    if args.package:
        every = [one for one in every if one.package in args.package]
    if args.path:
        every = [one for one in every if any(part in one.path for part in args.path)]
    if not args.sample or args.sample >= len(every):
        return every
    return Random(args.seed).sample(every, args.sample)


def _run_left(chosen: Sequence[Mutant], args: argparse.Namespace) -> None:
    """Each kind of mutant has a process of its own: one has manta imported, the others have not.

    Survivors in functions that run at import (they build a table) are tried again in a process that imports the
    mutant: they have run before their code could be replaced.
    """
    deadline = time.monotonic() + args.minutes * 60 if args.minutes else None
    tests = load_map()  # builds what is not cached
    inside = {one for one in chosen if is_inside_functions(one)}
    for kind in ("inside", "fresh", "again"):
        known = _known()
        left = [one for one in chosen if one not in known and (one in inside) == (kind == "inside")]
        if kind == "again":
            unsure = (one for one in chosen if one in inside and _is_unsure(known.get(one)))
            left = [one for one in unsure if runs_at_import(one, tests)]
        seconds = max(1.0, deadline - time.monotonic()) if deadline else None
        if left and not _run_kind(kind, left, args.workers, seconds):
            print("stopped by --minutes; --resume continues", file=sys.stderr)
            return


def _is_unsure(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.how == "survived" and not verdict.imported


def _run_kind(kind: str, mutants: list[Mutant], workers: int, seconds: float | None) -> bool:
    """False: there was not enough time."""
    path = CACHE / f"{kind}.json"
    path.write_text(json.dumps([asdict(one) for one in mutants]))
    command = [sys.executable, "-m", "tools.mutate", "--worker", kind, "--mutants", str(path)]
    command += ["--workers", str(workers)]
    try:
        subprocess.run(command, cwd=ROOT, check=False, timeout=seconds, stdout=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return True


def _work(kind: str, path: Path, workers: int) -> int:
    tests = load_map()
    mutants = [Mutant(**one) for one in json.loads(path.read_text())]
    works = [work_for(one, tests, inside=kind != "fresh") for one in mutants]
    with _KEPT.open("a") as kept:

        def tell(verdict: Verdict) -> None:
            final = replace(verdict, imported=kind != "inside")
            kept.write(msgspec.json.encode(final).decode() + "\n")
            kept.flush()

        if kind != "inside":
            run_fresh(works, workers, tell)
            return 0
        plugins = [Loop(works, workers, tell)]
        paths = sorted({test.partition("::")[0] for one in works for test in one.tests})
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        return int(pytest.main([*options, *(paths or suites())], plugins=plugins))


def _known() -> dict[Mutant, Verdict]:
    """The last verdict on each mutant."""
    if not _KEPT.exists():
        return {}
    lines = _KEPT.read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=Verdict) for line in lines]
    return {one.mutant: one for one in found}


def _print(args: argparse.Namespace, chosen: Sequence[Mutant], seconds: float) -> int:
    known = _known()
    verdicts = [known[one] for one in chosen if one in known]
    document = as_document(verdicts, seed=args.seed, sample=len(chosen), seconds=seconds)
    if args.json:
        args.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    for one in document["survivors"]:
        print(f"{one['how']}: {one['path']}:{one['line']}: {one['change']} ({one['tests']} tests)")
    print("\n".join(table(document)))
    return 1 if document["score"] < args.fail_under or len(verdicts) < len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
