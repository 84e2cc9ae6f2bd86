from __future__ import annotations

from pathlib import Path

from manta.localplane.node.host import wire
from manta.localplane.node.pod.attempts import (
    attempt_numbers,
    has_ended,
    remove_old_attempts,
    restore_from_disk,
    write_termination,
)
from manta.localplane.node.pod.snapshot import ContainerState, Termination

EXIT = {"code": 3, "signal": 0, "started": 1.0, "finished": 2.0, "oom": False, "error": ""}


def attempt(pod: Path, number: int, *, over: bool = True) -> Path:
    directory = pod / "containers" / "main" / str(number)
    directory.mkdir(parents=True)
    wire.write_record(directory / "start.json", {"started": 1.0})
    if over:
        wire.write_record(directory / "exit.json", EXIT)
    return directory


def test_a_container_that_never_started_has_no_facts(tmp_path: Path) -> None:
    assert restore_from_disk(tmp_path, "main", {}).state is ContainerState.NOT_STARTED


def test_a_running_attempt_is_taken_over_with_the_end_before_it(tmp_path: Path) -> None:
    attempt(tmp_path, 0)
    attempt(tmp_path, 1, over=False)
    facts = restore_from_disk(tmp_path, "main", {"main/1": 7.0})
    assert (facts.state, facts.attempt, facts.started) == (ContainerState.RUNNING, 1, 7.0)
    assert facts.last_termination is not None
    assert facts.last_termination.code == 3


def test_an_end_that_nobody_saw_is_read_from_its_record(tmp_path: Path) -> None:
    directory = attempt(tmp_path, 0)
    (directory / "termination-log").write_text("last words")
    facts = restore_from_disk(tmp_path, "main", {})
    assert facts.termination is not None
    assert (facts.termination.code, facts.termination.message) == (3, "last words")


def test_an_attempt_that_vanished_counts_as_killed(tmp_path: Path) -> None:
    attempt(tmp_path, 0, over=False)
    facts = restore_from_disk(tmp_path, "main", {})
    assert facts.termination is not None
    assert facts.termination.code == 137


def test_only_the_last_two_attempts_are_kept(tmp_path: Path) -> None:
    for number in range(3):
        (attempt(tmp_path, number) / "scratch").mkdir()
    remove_old_attempts(tmp_path, "main", 2)
    assert attempt_numbers(tmp_path, "main") == [1, 2]
    assert not (tmp_path / "containers/main/1/scratch").exists()
    assert (tmp_path / "containers/main/2/scratch").exists()


def test_an_end_can_be_written_for_an_init_that_was_killed(tmp_path: Path) -> None:
    directory = attempt(tmp_path, 0, over=False)
    assert not has_ended(directory)
    write_termination(directory, Termination(code=137, started=1.0, finished=2.0))
    assert has_ended(directory)
    assert restore_from_disk(tmp_path, "main", {}).termination is not None
