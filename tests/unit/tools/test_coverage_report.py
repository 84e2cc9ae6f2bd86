"""`make coverage`: the table by package."""

from __future__ import annotations

from tools.coverage.report import Count, by_package, counts, table


def summary(lines: int, run: int, branches: int = 0, taken: int = 0) -> dict[str, dict[str, int]]:
    return {
        "summary": {
            "num_statements": lines,
            "covered_lines": run,
            "num_branches": branches,
            "covered_branches": taken,
        }
    }


def test_files_of_the_package_are_summed_by_their_first_folder() -> None:
    report = {
        "files": {
            "src/manta/rules/a.py": summary(10, 5, 4, 4),
            "src/manta/rules/validation/b.py": summary(10, 10, 6, 1),
            "src/manta/__init__.py": summary(1, 1),
            "tools/elsewhere.py": summary(9, 0),
        }
    }
    assert by_package(counts(report)) == {"(top)": Count(1, 1), "rules": Count(20, 15, 10, 5)}


def test_a_package_below_the_aim_is_marked_and_one_without_branches_is_not() -> None:
    rows = list(
        table({"rules": Count(20, 15, 10, 5), "api": Count(2, 1, 2, 0), "runtime": Count(1, 1)})
    )
    assert [row.endswith("below the aim") for row in rows[1:]] == [True, False, False]
    assert "75.0%" in rows[1]
    assert "50.0%" in rows[1]
