"""`manta history`, and `manta logs` of a job that is gone, on a recorded session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manta.cli.main import main
from support.history import FAILED_TASK, WHO, recorded_session


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "MANTA_DIR", "MANTA_HISTORY_STORE"):
        monkeypatch.delenv(name, raising=False)
    return recorded_session(tmp_path).store.url


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["history", *arguments]) == 0
    return capsys.readouterr().out


def test_list_shows_the_sessions(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "list", "--store", store).splitlines()
    assert lines[0].split() == ["NAMESPACE", "KIND", "NAME", "SESSION"]
    assert lines[1].split()[:3] == ["default", "rayjob", "train"]
    [found] = json.loads(shown(capsys, "list", "-A", "-o", "json", "--store", store))
    assert (found["cluster"], found["rayVersion"]) == ("train-abc", "2.60.0")
    assert "train-abc" in shown(capsys, "list", "-o", "wide", "--store", store)


@pytest.mark.parametrize(
    ("target", "count"),
    [("", 1), ("rayjobs", 1), ("job/train", 1), ("rayjob/other", 0), ("raycluster", 0)],
)
def test_list_shows_one_kind_or_one_name(
    store: str, capsys: pytest.CaptureFixture[str], target: str, count: int
) -> None:
    words = [target] if target else []
    assert len(json.loads(shown(capsys, "list", *words, "-o", "json", "--store", store))) == count


@pytest.mark.parametrize(
    ("flag", "count"), [("--name=f", 1), ("--name=other", 0), ("--job=02000000", 1)]
)
def test_errors_are_filtered(
    store: str, capsys: pytest.CaptureFixture[str], flag: str, count: int
) -> None:
    found = json.loads(shown(capsys, "errors", "train", flag, "-o", "json", "--store", store))
    assert len(found) == count


@pytest.mark.parametrize("target", ["train", "rayjob/train", "job/train", "RayJobs/train"])
def test_show_tells_what_ran_and_what_failed_first(
    store: str, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    text = shown(capsys, "show", target, "--store", store)
    assert "1 FAILED" in text
    assert "SUCCEEDED" in text
    assert "ValueError: number seven" in text


def test_tasks_are_filtered_and_paged(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    [failed] = json.loads(
        shown(capsys, "tasks", "train", "--state", "FAILED", "-o", "json", "--store", store)
    )
    assert failed["task_id"] == FAILED_TASK
    assert main(["history", "tasks", "train", "--limit", "2", "--store", store]) == 0
    page = capsys.readouterr()
    assert len(page.out.splitlines()) == 3
    assert "--offset 2 shows more" in page.err
    assert "NORMAL_TASK" in shown(capsys, "tasks", "train", "-o", "wide", "--store", store)


def test_errors_have_their_tracebacks(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "errors", "train", "--store", store)
    assert "TASK_EXECUTION_EXCEPTION" in text
    assert "ValueError: number seven" in text
    assert "error_message:" in shown(capsys, "errors", "train", "-o", "yaml", "--store", store)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], "the driver says hello\nand goodbye\n"),
        (["--tail", "1"], "and goodbye\n"),
        (["--task", FAILED_TASK], "task 7\n"),
        (["--file", "raylet.out", "--tail", "2"], "two\nthree\n"),
        (["--file", "raylet.out", "--node", WHO.pod], "one\ntwo\nthree\n"),
        (["--pid", "29268", "--tail", "1"], "after\n"),
    ],
)
def test_logs_of_the_driver_a_task_a_process_and_a_file(
    store: str, capsys: pytest.CaptureFixture[str], flags: list[str], text: str
) -> None:
    assert shown(capsys, "logs", "train", *flags, "--store", store) == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["logs", "train", "--file", "../../etc/passwd"], "no log file '../../etc/passwd'"),
        (["tasks", "train", "--state", "BROKEN"], "--state BROKEN: must be one of NIL,"),
        (["logs", "train", "--task", "00"], "no task 00"),
        (["logs", "train", "--actor", "00"], "no actor 00"),
        (["logs", "train", "--pid", "1"], "no log of a worker with pid 1"),
        (["show", "other"], "no history of other in namespace default"),
        (["show", "rayjob/train/.."], "session '..': must look like"),
        (["show", "a/b/c/d/e"], "write KIND/NAME"),
        (["show", "rayjob/.."], "no history of rayjob/.. in namespace default"),
        (["show", "rayjob/train/session_x"], "no session default/rayjob/train/session_x"),
    ],
)
def test_what_is_not_there_is_named(
    store: str, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["history", *arguments, "--store", store]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("count", ["-1", "9223372036854775808", "x"])
def test_a_number_that_no_index_can_have_is_refused(
    store: str, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    with pytest.raises(SystemExit):
        main(["history", "tasks", "rayjob/train", f"--offset={count}", "--store", store])
    assert "argument --offset" in capsys.readouterr().err


def test_one_damaged_session_is_listed_with_the_others(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "store/sessions/default/rayjob/other/session_2026-01-02/session.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"{trunc")
    found = json.loads(shown(capsys, "list", "-o", "json", "--store", store))
    assert {one["name"]: one["cluster"] for one in found} == {"other": "", "train": "train-abc"}


def test_a_damaged_index_is_named_without_a_traceback(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(capsys, "show", "train", "--store", store)
    [index] = (tmp_path / ".cache/manta/history").glob("*.db")
    index.write_bytes(index.read_bytes()[:4096] + b"x" * 40_000)
    assert main(["history", "show", "train", "--store", store]) == 1
    assert ".cache/manta/history cannot be read: " in capsys.readouterr().err


def test_without_a_store_the_command_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MANTA_HISTORY_STORE", raising=False)
    assert main(["history", "list", "--dir", str(tmp_path)]) == 2
    assert "manta up --history" in capsys.readouterr().err


def test_prune_shows_first_and_deletes_then(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    old = ("prune", "--larger-than", "1", "--keep-at-least", "0s", "--store", store)
    assert "train" in shown(capsys, *old, "--dry-run")
    assert "train" in shown(capsys, "list", "--store", store)
    assert "train" not in shown(capsys, "prune", "--larger-than", "1", "--store", store)
    assert "train" in shown(capsys, *old)
    assert "train" not in shown(capsys, "list", "--store", store)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "name what goes"),
        (["--older-than", "soon"], "write it as 30d"),
        (["--larger-than", "-1"], "must not be negative"),
        (["--larger-than", "x"], "--larger-than x"),
    ],
)
def test_prune_refuses_what_it_does_not_understand(
    store: str, capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    assert main(["history", "prune", *flags, "--store", store]) == 2
    assert words in capsys.readouterr().err
    assert "train" in shown(capsys, "list", "--store", store)
