"""The score by package, as a table and as JSON, and the survivors. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tools.mutate.test_map import PACKAGES
from tools.mutate.workers import Verdict

DEAD = ("killed", "timeout")


def as_document(verdicts: Sequence[Verdict], **about: Any) -> dict[str, Any]:
    return {
        **about,
        "mutants": len(verdicts),
        "score": score(verdicts),
        "packages": {
            package: {"mutants": len(found), "score": score(found), **_counts(found)}
            for package in PACKAGES
            if (found := [one for one in verdicts if one.mutant.package == package])
        },
        "survivors": [
            {
                "path": one.mutant.path,
                "line": one.mutant.line,
                "change": one.mutant.change,
                "how": one.how,
                "tests": one.tests,
            }
            for one in sorted(verdicts, key=lambda one: (one.mutant.path, one.mutant.line))
            if one.how not in DEAD
        ],
    }


def score(verdicts: Iterable[Verdict]) -> float:
    """Percent of the mutants that a test killed."""
    found = [one.how in DEAD for one in verdicts]
    return round(100 * sum(found) / len(found), 1) if found else 100.0


def _counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    names = ("killed", "timeout", "survived", "uncovered", "broken")
    return {name: sum(one.how == name for one in verdicts) for name in names}


def table(document: dict[str, Any]) -> Iterator[str]:
    yield f"{'package':14}{'mutants':>9}{'killed':>9}{'timeout':>9}{'survived':>10}{'uncovered':>11}{'score':>8}"
    for package, row in document["packages"].items():
        yield (
            f"{package:14}{row['mutants']:>9}{row['killed']:>9}{row['timeout']:>9}"
            f"{row['survived']:>10}{row['uncovered']:>11}{row['score']:>7}%"
        )
    yield f"{'all':14}{document['mutants']:>9}{'':>39}{document['score']:>7}%"
