"""The flight recorder on the embedded plane: secrets, replays, and the two commands that read it."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from manta.cli.main import main
from manta.recording.replay import replay
from support.recorded import SECRETS, read, record

COUNT = 120
"""`python -m benchmarks replay` does the same with 10,000."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recording")
    record(folder, COUNT)
    return folder


def test_every_recorded_plan_is_computed_again_alike(recording: Path) -> None:
    found = [replay(one) for one in read(recording)]
    assert len(found) >= COUNT
    assert [one for one in found if not one.same or one.notes] == []
    assert {one.recorded.controller for one in found} >= {"raycluster", "rayjob-controller"}


def test_no_planted_secret_is_in_the_files(recording: Path) -> None:
    text = "".join(path.read_text() for path in recording.iterdir())
    assert [secret for secret in SECRETS if secret in text] == []


def test_replay_tells_the_story_and_its_exit_code_says_whether_plans_differ(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(recording)]) == 0
    text = capsys.readouterr().out
    assert "create Pod" in text
    assert "0 with another one" in text
    [first, *_] = sorted(recording.iterdir())
    changed = tmp_path / first.name
    changed.write_text(re.sub(r'"cause":"\w+"', '"cause":"Whim"', first.read_text()))
    assert main(["replay", str(changed), "--differences"]) == 1
    assert "ANOTHER PLAN" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "missing")]) == 2


def test_a_bug_report_packs_the_recording_and_lists_what_is_inside(
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    logs = tmp_path / "plane" / "logs"
    logs.mkdir(parents=True)
    (logs / "plane.log").write_text(f"started\nAuthorization: Bearer {SECRETS[0]}\n")
    path = tmp_path / "report.tar.gz"
    arguments = ["--recording", str(recording), "--dir", str(tmp_path / "plane")]
    assert main(["bugreport", str(path), *arguments]) == 0
    listed = capsys.readouterr().out
    assert "recording/recording-00000001.jsonl" in listed
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        files = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        text = "".join(file.read().decode() for file in files.values() if file)
    assert "manta-bugreport/versions.json" in files
    assert "manta-bugreport/logs/plane.log" in files
    assert [secret for secret in SECRETS if secret in text] == []
