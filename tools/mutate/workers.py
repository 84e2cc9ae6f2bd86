"""Runs mutants in forked processes: each has pytest, the tests and the code loaded already.

A mutant inside a function replaces the code of that function in the fork. A mutant of a module or a
class (a table, a default) has run at import, so its process imports everything again, with the mutant.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn

import pytest

from tools.mutate.mutations import Mutant, changed_functions, mutated_code
from tools.mutate.test_map import ROOT

SURVIVED: Final = 0
KILLED: Final = 1
BROKEN: Final = 3
SLACK_SECONDS: Final = 15.0
SLOWER: Final = 8.0
"""A mutant may make a test this much slower, in CPU time, before it counts as killed by its time limit."""
STARVED: Final = 20.0
"""Wall time may be so many times that limit: one that waits for ever uses no CPU, and the machine may be busy."""


@dataclass(frozen=True, slots=True)
class Work:
    mutant: Mutant
    tests: tuple[str, ...]
    """Fastest first."""
    seconds: float
    """What the tests take without a mutant."""


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    how: str
    """killed, timeout, survived, uncovered; broken: the tests could not be run at all."""
    tests: int
    by: str = ""
    """The test that killed it."""
    imported: bool = False
    """The process imported the mutant. False: it replaced the code of a function."""


@dataclass
class Running:
    work: Work
    pid: int
    pipe: int
    limit: float
    """CPU seconds."""
    began: float


def run_all(
    works: Sequence[Work], workers: int, start: Callable[[Work, int], int]
) -> Iterator[Verdict]:
    """The verdicts as they come. `start` forks: it returns the pid, and the child never returns."""
    waiting, running = list(reversed(works)), list[Running]()
    while waiting or running:
        while waiting and len(running) < workers:
            work = waiting.pop()
            if not work.tests:
                yield Verdict(work.mutant, "uncovered", 0)
                continue
            running.append(_started(work, start))
        for one in list(running):
            if (verdict := _finished(one)) is not None:
                running.remove(one)
                yield verdict
        if running:
            time.sleep(0.01)


def _started(work: Work, start: Callable[[Work, int], int]) -> Running:
    reader, writer = os.pipe()
    pid = start(work, writer)
    os.close(writer)
    limit = SLACK_SECONDS + SLOWER * work.seconds
    return Running(work, pid, reader, limit, time.monotonic())


def _finished(one: Running) -> Verdict | None:
    pid, status = os.waitpid(one.pid, os.WNOHANG)
    if not pid:
        if not is_late(one):
            return None
        os.kill(one.pid, signal.SIGKILL)
        os.waitpid(one.pid, 0)
        os.close(one.pipe)
        return Verdict(one.work.mutant, "timeout", len(one.work.tests))
    by = os.read(one.pipe, 4096).decode()
    os.close(one.pipe)
    code = os.waitstatus_to_exitcode(status)
    how = {SURVIVED: "survived", BROKEN: "broken"}.get(code, "killed")
    return Verdict(one.work.mutant, how, len(one.work.tests), by)


def is_late(one: Running) -> bool:
    if time.monotonic() > one.began + STARVED * one.limit:
        return True
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime
        return used > one.limit
    return False


# ── mutants inside functions ─────────────────────────────────────────────────────────────


class Loop:
    """A pytest plugin: instead of the tests, it runs the mutants, each in a fork of this process."""

    def __init__(
        self, works: Sequence[Work], workers: int, tell: Callable[[Verdict], None]
    ) -> None:
        self._works = works
        self._workers = workers
        self._tell = tell

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = _live_functions()
        gc.collect()
        gc.freeze()

        def start(work: Work, writer: int) -> int:
            pid = os.fork()
            if pid:
                return pid
            _child(lambda: _run_patched(work, items, functions, writer))

        for verdict in run_all(self._works, self._workers, start):
            self._tell(verdict)
        return True


def _child(run: Callable[[], int], *, raised: int = KILLED) -> NoReturn:
    """Run and exit. `raised`: the exit code if `run` raises."""
    code = BROKEN
    try:
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        code = run()
    except BaseException:  # noqa: BLE001  a mutant may raise anything, even SystemExit
        code = raised
    finally:
        os._exit(code)


def _live_functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """Every function of the mutated files, by file, name and line: a table or a decorator may hold it."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    inside = str(ROOT / "src" / "manta")
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(inside):
            found.setdefault(_place(one.__code__), []).append(one)
    return found


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _run_patched(
    work: Work,
    items: Mapping[str, pytest.Item],
    functions: Mapping[tuple[str, str, int], list[FunctionType]],
    writer: int,
) -> int:
    filename = str(ROOT / work.mutant.path)
    source = Path(filename).read_text()
    old = compile(source, filename, "exec", dont_inherit=True)
    new = mutated_code(work.mutant, source, filename)
    for before, after in changed_functions(old, new) or ():
        for function in functions.get(_place(before), ()):
            function.__code__ = after
    return _run_items([items[one] for one in work.tests if one in items], writer)


def _run_items(items: Sequence[pytest.Item], writer: int) -> int:
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else None
        watch = _Failures()
        item.config.pluginmanager.register(watch)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item.config.pluginmanager.unregister(watch)
        if watch.failed:
            os.write(writer, item.nodeid.encode()[:4000])
            return KILLED
    return SURVIVED


class _Failures:
    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


# ── mutants of modules and classes ───────────────────────────────────────────────────────


def run_fresh(works: Sequence[Work], workers: int, tell: Callable[[Verdict], None]) -> None:
    """Fork this process, which has imported no part of manta, for each mutant."""
    _preload()

    def start(work: Work, writer: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        _child(lambda: _run_imported(work, writer), raised=BROKEN)

    for verdict in run_all(works, workers, start):
        tell(verdict)


def _preload() -> None:
    """Libraries that every test needs. No plugin of pytest: it wants to import those itself."""
    for name in ("asyncio", "ssl", "msgspec", "yaml", "aiohttp", "cryptography.x509"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if any(name.partition(".")[0] == "manta" for name in sys.modules):
        raise RuntimeError("manta is imported already: a mutant would have no effect")


def _run_imported(work: Work, writer: int) -> int:
    filename = str(ROOT / work.mutant.path)
    code = mutated_code(work.mutant, Path(filename).read_text(), filename)
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, name: str) -> CodeType | None:
        return code if self.path == filename else original(self, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    first = _First(writer)
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    result = pytest.main([*arguments, *work.tests], plugins=[first])
    if result == pytest.ExitCode.OK:
        return SURVIVED
    return KILLED if first.has_failed else BROKEN


class _First:
    """Reports the first test that failed. A file that cannot be imported counts as one."""

    def __init__(self, writer: int) -> None:
        self._writer = writer
        self.has_failed = False

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self.has_failed:
            self.has_failed = True
            os.write(self._writer, report.nodeid.encode()[:4000])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)


def is_inside_functions(mutant: Mutant) -> bool:
    filename = str(ROOT / mutant.path)
    source = Path(filename).read_text()
    old = compile(source, filename, "exec", dont_inherit=True)
    return bool(changed_functions(old, mutated_code(mutant, source, filename)))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def files_of(tests: Iterable[str]) -> set[str]:
    return {file_of(test) for test in tests}
