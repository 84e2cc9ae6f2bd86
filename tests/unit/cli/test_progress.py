"""P11, U17: what a command waits for is shown, live on a terminal and as plain lines elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from manta.api.meta import Key
from manta.api.resources import EVENTS, PODS
from manta.cli.output.follow_job import PrintOnce, result_line
from manta.cli.output.live_progress import LiveProgress
from manta.cli.output.progress import REMINDER_SECONDS, PlainProgress, elapsed, is_live
from manta.cli.output.wait import Followed, Follower
from support.plane import memory_plane


def test_plain_progress_prints_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = PlainProgress()
    for what in ("starting", "starting", "running"):
        progress.report("pod/a", what)
    assert [line.split() for line in capsys.readouterr().err.splitlines()] == [
        ["pod/a", "starting"],
        ["pod/a", "running"],
    ]


def test_plain_progress_is_never_silent_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = PlainProgress(lambda: now)
    progress.report("pod/a", "Pulling image")
    progress.report("pod/b", "ready", "ready")
    capsys.readouterr()
    progress.remind()
    assert capsys.readouterr().err == ""
    now = 2 * REMINDER_SECONDS + 5
    progress.remind()
    progress.remind()
    assert capsys.readouterr().err.split() == [
        "pod/a",
        "Pulling",
        "image",
        "(for",
        "1",
        "min",
        "05",
        "s)",
    ]


@pytest.mark.parametrize(
    ("environment", "live"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
)
def test_only_a_terminal_that_wants_it_is_redrawn(
    environment: dict[str, str], live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert is_live(environment) is live
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert not is_live(environment)


def drawn(progress: LiveProgress, console: Console) -> list[str]:
    with console.capture() as capture:
        console.print(progress.table())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_live_table_shows_failures_first_and_as_much_as_fits() -> None:
    console = Console(file=io.StringIO(), width=60, height=8, force_terminal=True, no_color=True)
    progress = LiveProgress(console)
    for number in range(20):
        progress.report(f"pod/ready-{number}", "ready", "ready")
    progress.report("pod/waits", "Pulling image")
    progress.report("pod/broken", "exit code 1", "failed")
    progress.report("raycluster/demo", "1 of 2 workers are ready")
    lines = drawn(progress, console)
    assert [name for line in lines[:4] for name in re.findall(r"\S+/\S+", line)] == [
        "raycluster/demo",
        "pod/broken",
        "pod/waits",
        "pod/ready-0",
    ]
    assert "0 s" in lines[2]
    assert "and 19 more, 19 of them ready" in lines[4]


def test_a_long_reason_is_shown_whole_and_beside_a_whole_name() -> None:
    console = Console(file=io.StringIO(), width=50, height=20, force_terminal=True, no_color=True)
    progress = LiveProgress(console)
    progress.report("rayjob/train-x7k2p", "Initializing: " + "a long reason " * 5)
    lines = drawn(progress, console)
    assert "rayjob/train-x7k2p" in lines[0]
    assert " ".join(lines).count("reason") == 5


def test_after_the_live_table_reports_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveProgress(Console(file=io.StringIO(), force_terminal=True)) as progress:
        progress.report("rayjob/a", "Initializing")
        progress.finish()
        progress.report("rayjob/a", "Running")
    assert capsys.readouterr().err.split() == ["rayjob/a", "Running"]


def test_elapsed_times_are_readable() -> None:
    assert [elapsed(one) for one in (0.4, 59.9, 60, 3725)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "62 min 05 s",
    ]


async def test_the_download_of_an_image_is_reported_by_its_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P11: nothing was said during the first image download."""
    async with memory_plane() as plane:
        waiting = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
        container = {"name": "c", "image": "ray:1"}
        body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        await plane.client.create(PODS, "default", body)
        event = {
            "metadata": {"name": "p.1"},
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "Pulling",
            "note": 'Pulling image "ray:1"',
            "action": "Pulling",
            "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "kubelet",
            "reportingInstance": "n",
        }
        await plane.client.create(EVENTS, "default", event)
        status = {"status": {"phase": "Pending", "containerStatuses": [waiting]}}
        await plane.client.patch(PODS, Key("default", "p"), status, subresource="status")
        followed = [Followed(PODS, Key("default", "p"))]
        assert not await Follower(plane.client, PlainProgress()).until_ready(followed, 0.3)
    assert 'Pulling image "ray:1"' in capsys.readouterr().err


def test_other_commands_do_not_load_rich() -> None:
    """Neither do `up` and `submit` where nobody sees it live."""
    code = (
        "import sys, manta.cli.get, manta.cli.up, manta.cli.submit, manta.cli.output.progress as p\n"
        "p.open_progress().__enter__().report('a', 'b')\n"
        "print([one for one in sys.modules if one.split('.')[0] in ('rich', 'pathspec')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_on_a_terminal_the_view_is_live(tmp_path: Path) -> None:
    """With a real one: the table is drawn, redrawn, and left as it was at the end."""
    script = tmp_path / "show.py"
    script.write_text(
        "import time\nfrom manta.cli.output.progress import open_progress\n"
        "with open_progress() as progress:\n"
        "    progress.report('raycluster/demo', 'waiting for Pods')\n    time.sleep(0.5)\n"
        "    print('a line of its own')\n"
        "    progress.report('raycluster/demo', 'ready', 'ready')\n"
    )
    pid, fd = pty.fork()
    if pid == 0:
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
        os.execve(sys.executable, [sys.executable, str(script)], {**kept, "TERM": "xterm"})
    shown = b""
    try:
        while data := os.read(fd, 65536):
            shown += data
    except OSError:  # a terminal says EIO when its last user is gone
        pass
    os.waitpid(pid, 0)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "waiting for Pods" in text
    assert "a line of its own" in text
    assert "✓ raycluster/demo ready" in text.splitlines()[-1]
    assert shown.count(b"\x1b[?25h") >= 1, "the cursor is shown again"


# ── the error of a failed job, once (U17) ────────────────────────────────────────────────

LOG = (
    b"2026-11-16 15:44:18,063\tINFO cli.py:42 -- Job\nTraceback\nValueError: boom\n12 of 30\r13 of"
)
REPEAT = (
    b"Status message: Job entrypoint command failed with exit code 1, last available logs "
    b"(truncated to 20,000 chars):\nValueError: boom\n"
)
TIME = b"2026-11-16 15:44:43,667\tINFO cli.py:89 -- "


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("begin", [b"\n", b"\n" + TIME])
def test_what_ray_repeats_of_the_log_is_left_out(begin: bytes, size: int) -> None:
    out: list[bytes] = []
    once = PrintOnce(out.append)
    whole = LOG + begin + REPEAT
    for at in range(0, len(whole), size):
        once(whole[at : at + size])
    once.flush()
    assert b"".join(out) == LOG + b"\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "log", [LOG, b"Status message: fine\nmore\n", b"x " + REPEAT, b"Status mess", b"a\rb\r\n\nc"]
)
def test_other_logs_are_passed_on_whole(log: bytes, size: int) -> None:
    out: list[bytes] = []
    once = PrintOnce(out.append)
    for at in range(0, len(log), size):
        once(log[at : at + size])
    once.flush()
    assert b"".join(out) == log


def test_the_last_line_says_how_it_ended_without_the_log() -> None:
    status = {
        "jobDeploymentStatus": "Failed",
        "jobStatus": "FAILED",
        "message": "Job entrypoint command failed with exit code 1, last available logs (trunc"
        "ated to 20,000 chars):\nTraceback\nValueError: boom",
    }
    words = result_line(status)
    assert words == "Failed (FAILED): Job entrypoint command failed with exit code 1"
    assert result_line({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}) == (
        "Complete (SUCCEEDED)"
    )
