from __future__ import annotations

import os
import time

import pytest
from tools.mutate.mutations import Mutant, changed_functions, mutants_of, mutated_code
from tools.mutate.report import as_document, score
from tools.mutate.selection import runs_at_import
from tools.mutate.test_map import TestMap
from tools.mutate.workers import Running, Verdict, Work, is_late

PATH = "src/manta/rules/x.py"


def changes(source: str) -> list[str]:
    return [one.change for one in mutants_of(PATH, source)]


def run(source: str, change: str) -> dict[str, object]:
    [mutant] = [one for one in mutants_of(PATH, source) if one.change == change]
    names: dict[str, object] = {}
    exec(mutated_code(mutant, source, "x.py"), names)
    return names


@pytest.mark.parametrize(
    ("source", "change", "expected"),
    [
        ("y = 1 == 1", "== → !=", False),
        ("y = 2 < 2", "< → <=", True),
        ("y = 2 in (2,)", "in → not in", False),
        ("y = True and False", "and → or", True),
        ("y = not 1", "not x → x", 1),
        ("y = 5 - 2", "- → +", 7),
        ("y = 7", "7 → 8", 8),
        ("y = True", "True → False", False),
        ("y = 'name'", "'name' → 'XXname'", "XXname"),
    ],
)
def test_one_change_is_made(source: str, change: str, expected: object) -> None:
    assert run(source, change)["y"] == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A text."""',
        "x: dict[str, 'int'] = y",
        "def f(a: 'int') -> 'str':\n    ...",
        "log.info('seconds')",
        "raise ValueError('odd')",
        "z = f'{x} and more'",
        "z = 'a text for people'",
        "@dataclass(frozen=True)\nclass A(B, kw_only=True):\n    ...",
        "A = B | None",
        "from a import b",
    ],
)
def test_what_no_test_should_notice_stays(source: str) -> None:
    assert changes(source) == []


def test_every_mutant_of_a_file_has_its_own_number_and_compiles() -> None:
    source = "def f(a, b):\n    if a == 1 and b > 2:\n        return a + b\n    return not b\n"
    found = mutants_of(PATH, source)
    assert [one.number for one in found] == list(range(len(found)))
    codes = {mutated_code(one, source, "x.py").co_consts[0] for one in found}
    assert len(codes) == len(found)


def test_the_code_of_functions_is_told_from_that_of_modules() -> None:
    source = "LIMIT = 3\ndef f():\n    return 4\nclass A:\n    size = 5\n    def g(self):\n        return 6\n"
    old = compile(source, "x.py", "exec", dont_inherit=True)
    inside = {
        one.change: bool(changed_functions(old, mutated_code(one, source, "x.py")))
        for one in mutants_of(PATH, source)
    }
    assert inside == {"3 → 4": False, "4 → 5": True, "5 → 6": False, "6 → 7": True}


def test_the_score_counts_timeouts_as_killed_and_lists_survivors() -> None:
    hows = ("killed", "timeout", "survived", "uncovered")
    found = [Verdict(Mutant(PATH, at, at, 0, "x"), how, 1) for at, how in enumerate(hows)]
    document = as_document(found)
    assert score(found) == document["packages"]["rules"]["score"] == 50.0
    assert [one["how"] for one in document["survivors"]] == ["survived", "uncovered"]


def test_parts_of_the_map_are_added_with_the_lines_that_ran_at_import() -> None:
    whole = TestMap(["a"], [0.1], {"x.py": {1: [0]}}, {"x.py": [1]})
    whole.add(TestMap(["b"], [0.2], {"x.py": {1: [0], 2: [0]}}, {"x.py": [1, 3], "y.py": [4]}))
    assert whole.covering("x.py", [1]) == {0, 1}
    assert whole.covering("x.py", [2]) == {1}
    assert whole.imported == {"x.py": [1, 3], "y.py": [4]}


@pytest.mark.parametrize(("imported", "again"), [([33], True), ([1, 200], False), ([], False)])
def test_only_what_runs_at_import_is_tried_again(imported: list[int], again: bool) -> None:
    """Line 33 of that file is inside a function."""
    path = "tools/mutate/report.py"
    mutant = Mutant(path, 0, 33, 0, "")
    assert runs_at_import(mutant, TestMap(imported={path: imported})) is again


def test_a_mutant_that_uses_too_much_cpu_or_never_ends_is_late() -> None:
    """The machine may be busy: wall time alone says little."""
    work = Work(Mutant("x.py", 0, 1, 0, ""), ("test",), 1.0)
    me, now = os.getpid(), time.monotonic()
    assert not is_late(Running(work, me, 0, limit=1e6, began=now - 60))
    assert is_late(Running(work, me, 0, limit=0.0, began=now))
    assert is_late(Running(work, me, 0, limit=1.0, began=now - 3600))
