from __future__ import annotations

from pathlib import Path

from manta.localplane.node import wire
from manta.localplane.node.attempts import forget_old, is_over, numbers, recover, write_ended
from manta.localplane.node.snapshot import Ended, Life

EXIT = {"code": 3, "signal": 0, "started": 1.0, "finished": 2.0, "oom": False, "error": ""}


def attempt(pod: Path, number: int, *, over: bool = True) -> Path:
    directory = pod / "containers" / "main" / str(number)
    directory.mkdir(parents=True)
    wire.write_record(directory / "start.json", {"started": 1.0})
    if over:
        wire.write_record(directory / "exit.json", EXIT)
    return directory


def test_a_container_that_never_started_has_no_facts(tmp_path: Path) -> None:
    assert recover(tmp_path, "main", {}).life is Life.NONE


def test_a_running_attempt_is_taken_over_with_the_end_before_it(tmp_path: Path) -> None:
    attempt(tmp_path, 0)
    attempt(tmp_path, 1, over=False)
    facts = recover(tmp_path, "main", {"main/1": 7.0})
    assert (facts.life, facts.attempt, facts.started) == (Life.RUNNING, 1, 7.0)
    assert facts.last is not None
    assert facts.last.code == 3


def test_an_end_that_nobody_saw_is_read_from_its_record(tmp_path: Path) -> None:
    directory = attempt(tmp_path, 0)
    (directory / "termination-log").write_text("last words")
    facts = recover(tmp_path, "main", {})
    assert facts.ended is not None
    assert (facts.ended.code, facts.ended.message) == (3, "last words")


def test_an_attempt_that_vanished_counts_as_killed(tmp_path: Path) -> None:
    attempt(tmp_path, 0, over=False)
    facts = recover(tmp_path, "main", {})
    assert facts.ended is not None
    assert facts.ended.code == 137


def test_only_the_last_two_attempts_are_kept(tmp_path: Path) -> None:
    for number in range(3):
        (attempt(tmp_path, number) / "scratch").mkdir()
    forget_old(tmp_path, "main", 2)
    assert numbers(tmp_path, "main") == [1, 2]
    assert not (tmp_path / "containers/main/1/scratch").exists()
    assert (tmp_path / "containers/main/2/scratch").exists()


def test_an_end_can_be_written_for_an_init_that_was_killed(tmp_path: Path) -> None:
    directory = attempt(tmp_path, 0, over=False)
    assert not is_over(directory)
    write_ended(directory, Ended(code=137, started=1.0, finished=2.0))
    assert is_over(directory)
    assert recover(tmp_path, "main", {}).ended is not None
