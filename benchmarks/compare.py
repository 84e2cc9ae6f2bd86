"""Compare two checkouts: the benchmarks of both take turns in one run, so that a slow minute hits both.

    python -m benchmarks.compare OTHER [--turns N] "NAME [ARGUMENT ...]" ...

OTHER is a checkout with a `.venv` of its own (`make setup`). Prints JSON: for each figure that both have, the medians of the other
checkout and of this one, and their ratio (below 1: this one's figure is smaller). `cpu_seconds` is the CPU time of the benchmark
with its child processes.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
Figures = dict[str, list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("benchmarks", nargs="+", metavar="NAME")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    result = {name: compared(args.other, name, args.turns) for name in args.benchmarks}
    print(json.dumps(result, indent=2))
    return 0


def compared(other: Path, benchmark: str, turns: int) -> dict[str, dict[str, float]]:
    """{figure: medians and ratio} of a benchmark, measured in turns.

    Raises:
        subprocess.CalledProcessError: the benchmark failed in one of the checkouts.
    """
    before: Figures = {}
    after: Figures = {}
    for _ in range(turns):
        for checkout, seen in ((other, before), (HERE, after)):
            print(f"== {benchmark} in {checkout}", file=sys.stderr, flush=True)
            answer = measured(checkout, benchmark)
            print(json.dumps(answer), file=sys.stderr, flush=True)
            for name, value in figures(answer):
                seen.setdefault(name, []).append(value)
    return {name: row(before[name], after[name]) for name in before.keys() & after.keys()}


def measured(checkout: Path, benchmark: str) -> dict[str, Any]:
    name, *arguments = shlex.split(benchmark)
    command = [str(checkout / ".venv/bin/python"), "-m", f"benchmarks.{name}", *arguments]
    before = _cpu_seconds()
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=checkout)
    answer: dict[str, Any] = json.loads(run.stdout)
    return {**answer, "cpu_seconds": round(_cpu_seconds() - before, 3)}


def _cpu_seconds() -> float:
    """Of all child processes that have ended: less sensitive to other load than wall time."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures(answer: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """(path, value) of each number in the JSON of a benchmark."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            yield from figures(value, f"{path}.{name}" if path else name)
    elif isinstance(answer, int | float) and not isinstance(answer, bool):
        yield path, float(answer)


def row(before: list[float], after: list[float]) -> dict[str, float]:
    old, new = statistics.median(before), statistics.median(after)
    return {"other": old, "this": new, **({"ratio": round(new / old, 3)} if old else {})}


if __name__ == "__main__":
    sys.exit(main())
