"""Prints the line and branch coverage of each package, and the files with the most that no test reaches.

`python -m tools.coverage.report .cache/coverage.json` reads what `coverage json` wrote. `make coverage` calls it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AIM = 90.0
"""Percent of branches, in the packages that decide what the operator does."""
AIMED = ("controllers", "rules", "manifests", "reconcile", "runtime")
FILES = 15


@dataclass(frozen=True)
class Count:
    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.lines + other.lines,
            self.lines_run + other.lines_run,
            self.branches + other.branches,
            self.branches_run + other.branches_run,
        )

    @property
    def missing(self) -> int:
        return self.lines - self.lines_run + self.branches - self.branches_run

    @property
    def line_percent(self) -> float:
        return _percent(self.lines_run, self.lines)

    @property
    def branch_percent(self) -> float:
        return _percent(self.branches_run, self.branches)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 100.0


def counts(report: Mapping[str, Any]) -> dict[str, Count]:
    """The count of each file below src/manta, by its path there."""
    found = {}
    for path, entry in report["files"].items():
        inside = path.partition("src/manta/")[2]
        if inside:
            summary = entry["summary"]
            found[inside] = Count(
                summary["num_statements"],
                summary["covered_lines"],
                summary["num_branches"],
                summary["covered_branches"],
            )
    return found


def by_package(files: Mapping[str, Count], depth: int = 1) -> dict[str, Count]:
    packages: dict[str, Count] = {}
    for path, count in files.items():
        package = "/".join(path.split("/")[:-1][:depth]) or "(top)"
        packages[package] = packages.get(package, Count()) + count
    return dict(sorted(packages.items()))


def table(rows: Mapping[str, Count]) -> Iterable[str]:
    yield f"{'':40} {'lines':>7} {'run':>7} {'branches':>9} {'run':>7}"
    for name, count in rows.items():
        below = name.partition("/")[0] in AIMED and count.branch_percent < AIM
        yield (
            f"{name:40} {count.lines:7} {count.line_percent:6.1f}% {count.branches:9} {count.branch_percent:6.1f}%"
            + ("  below the aim" if below else "")
        )


def main() -> None:
    files = counts(json.loads(Path(sys.argv[1]).read_text()))
    packages = by_package(files)
    total = Count()
    for count in files.values():
        total += count
    print(*table({**packages, "total": total}), sep="\n")
    print(f"\nThe {FILES} files of {', '.join(AIMED)} with the most that no test runs:")
    aimed = {name: one for name, one in files.items() if name.startswith(AIMED)}
    worst = sorted(aimed, key=lambda name: -aimed[name].missing)[:FILES]
    print(*table({name: aimed[name] for name in worst}), sep="\n")


if __name__ == "__main__":
    main()
