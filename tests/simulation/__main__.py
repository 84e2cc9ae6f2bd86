"""Many seeds: `python -m tests.simulation --seeds 1-5000 --profile all [--jobs N]`; see `--help`.

A failing seed is printed as a short story. `--seed N` tells one story in full, `--systematic` runs the plans of
`systematic`, `--coverage` says which fields and Event reasons the seeds reached.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulation import document
from simulation.coverage import Coverage
from simulation.generate import PROFILES, generate
from simulation.reference import run_checked
from simulation.run import Result
from simulation.shrink import shrink
from simulation.story import Story, load, save
from simulation.systematic import WORKLOADS, Plan, plans, run_plan


def run_seed(task: tuple[int, str]) -> Result:
    seed, profile = task
    result = run_checked(generate(seed, profile))
    result.lines = []
    return result


def shortened(result: Result) -> Story:
    wanted = result.failed[0]
    return shrink(result.story, lambda story: wanted in run_checked(story).failed)


def _say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _map(function: Any, tasks: Iterable[Any], jobs: int) -> Iterator[Any]:
    if jobs <= 1:
        yield from map(function, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(function, tasks, chunksize=4)


def _random(args: argparse.Namespace) -> int:
    began, failed, coverage = time.monotonic(), 0, Coverage()
    seeds = _seeds(args.seeds)
    tasks = [(seed, args.profile) for seed in seeds]
    virtual = 0.0
    for result in _map(run_seed, tasks, args.jobs):
        coverage.add(result)
        virtual += result.seconds
        if result.violations:
            failed += 1
            _report(result, shrinks=failed <= args.shrink)
    seconds = time.monotonic() - began
    _say(
        f"{len(seeds)} seeds, profile {args.profile}: {failed} with violations; "
        f"{virtual / 86400:.1f} virtual days in {seconds:.0f} s"
    )
    if args.coverage:
        _say(coverage.text())
    return 1 if failed else 0


def _report(result: Result, *, shrinks: bool) -> None:
    _say(f"seed {result.story.seed} ({result.story.profile}): {result.violations[0]}")
    for violation in result.violations[1:5]:
        _say(f"  {violation}")
    if shrinks:
        _say(str(shortened(result)))


def _one(story: Story, keep: str) -> int:
    result = run_checked(story)
    _say(str(story))
    for line in result.lines:
        _say(f"    {line}")
    for violation in result.violations:
        _say(f"VIOLATION {violation}")
    if result.violations and keep:
        save(shortened(result), Path(keep))
    return 1 if result.violations else 0


def _plan(plan: Plan) -> tuple[Plan, list[str]]:
    return plan, run_plan(plan).violations


def _systematic(args: argparse.Namespace) -> int:
    began, failed, count = time.monotonic(), 0, 0
    for workload in WORKLOADS:
        found = list(plans(workload))
        count += len(found)
        for plan, violations in _map(_plan, found, args.jobs):
            if violations:
                failed += 1
                _say(f"{plan}: {violations[0]}")
        _say(f"{workload}: {len(found)} plans")
    _say(f"{count} plans, {failed} with violations, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1-300", help="a range, such as 1-5000")
    parser.add_argument("--profile", default="all", choices=["all", *PROFILES])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", type=int, default=1, help="how many failing seeds to shorten")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--systematic", action="store_true")
    parser.add_argument("--seed", type=int, help="tell one seed in full")
    parser.add_argument("--document", action="store_true", help="write the tables of the docs")
    parser.add_argument("--story", help="run a story that was kept (a JSON file)")
    parser.add_argument("--keep", default="", help="with --seed: write the shortened story here")
    args = parser.parse_args()
    if args.document:
        document.write()
        return 0
    if args.systematic:
        return _systematic(args)
    if args.story:
        return _one(load(Path(args.story)), "")
    if args.seed is not None:
        return _one(generate(args.seed, args.profile), args.keep)
    return _random(args)


if __name__ == "__main__":
    sys.exit(main())
