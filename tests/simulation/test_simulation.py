"""The simulation itself: it is repeatable, it finds what it is meant to find, and 300 seeds find nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.document import PAGE, rendered
from simulation.generate import PROFILES, generate
from simulation.oracles import AT_THE_END, ORACLES
from simulation.planted import BUGS, Bug
from simulation.reference import run_checked
from simulation.run import run
from simulation.shrink import shrink
from simulation.story import KEPT, load, save
from simulation.systematic import Plan, run_plan

ROOT = Path(__file__).parents[2]
SEEDS = 300
PIECES = 30
DIGESTS = """
import sys
sys.path[:0] = ["tests", "."]
from simulation.generate import generate
from simulation.run import run
for seed in (1, 4, 9):
    print(run(generate(seed)).digest)
"""


@pytest.mark.timeout(600)
def test_one_seed_gives_byte_identical_traces_under_two_hash_seeds() -> None:
    """The digest is over every accepted write, with its time, its writer and the whole object."""
    told = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        told.append(done.stdout.split())
    assert len(told[0]) == 3
    assert told[0] == told[1]


def test_the_same_seed_twice_in_one_process_gives_the_same_trace() -> None:
    story = generate(7)
    assert run(story).lines == run(story).lines


def test_a_story_survives_being_kept(tmp_path: Path) -> None:
    story = generate(5)
    save(story, tmp_path / "story.json")
    assert load(tmp_path / "story.json") == story


def test_objects_of_an_owner_that_is_gone_are_not_created_in_a_loop() -> None:
    """The event that the RayCluster is gone comes 20 s late, and the garbage collector works meanwhile."""
    workload = "cluster with fault tolerance deleted"
    result = run_plan(Plan(workload, "delay", 6, "rayclusters"))
    assert result.violations == []
    assert result.writes < 30


@pytest.mark.timeout(600)
@pytest.mark.parametrize("piece", range(PIECES))
def test_no_seed_violates_an_oracle(piece: int) -> None:
    found = []
    for seed in range(1 + piece, SEEDS + 1, PIECES):
        result = run_checked(generate(seed))
        if result.violations:
            found.append(f"{result.story}\n{result.violations}")
    assert found == []


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_story_is_told_without_violation(path: Path) -> None:
    assert run_checked(load(path)).violations == []


def test_the_tables_of_the_documentation_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert rendered(page) == page, "run `python -m tests.simulation --document`"


QUICKLY_FOUND = ("no-uid", "raises", "raises-late", "raises-last")


@pytest.mark.timeout(300)
def test_planted_bugs_are_found() -> None:
    """Deletes without a UID, and exceptions in three phases; `python -m tests.simulation.planted` has many more."""
    found = subprocess.run(
        [sys.executable, "tests/simulation/planted.py", *QUICKLY_FOUND, "--most", "20"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(one["bug"], one["seeds"] is not None) for one in told] == [
        (name, True) for name in QUICKLY_FOUND
    ]


def test_every_oracle_has_a_planted_bug() -> None:
    """An oracle that has never failed proves nothing."""
    names = {one.name for one in ORACLES} | {name for name, _ in AT_THE_END}
    assert names == {bug.oracle for bug in BUGS}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_changes_the_code_as_it_is_now(bug: Bug) -> None:
    for path, old, _ in bug.cuts:
        text = (ROOT / "src/manta" / path).read_text()
        assert text.count(old) == 1, f"{path}: {old!r}"


def test_the_documentation_says_after_how_many_seeds_each_planted_bug_is_found() -> None:
    page = PAGE.read_text()
    assert [bug.name for bug in BUGS if f"| `{bug.name}` |" not in page] == []


def test_a_failing_story_is_shortened() -> None:
    """What fails here is that a certain step is in the story: only that step and its object stay."""
    story = generate(8, "mixed")
    wanted = story.steps[-1]
    short = shrink(story, lambda one: wanted in one.steps)
    assert wanted in short.steps
    assert sum(step.do != "create" for step in short.steps) <= 1


def test_every_profile_is_drawn() -> None:
    assert {generate(seed).profile for seed in range(1, 21)} == set(PROFILES)
