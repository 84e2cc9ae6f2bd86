"""Which tests run which lines of the mutated packages, and how long each takes. Cached.

`build` runs the tests once with coverage, one context for each test.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("controllers", "rules", "manifests", "reconcile", "runtime")
CACHE = ROOT / ".cache" / "mutate"
CHOSEN_SUITES = "MUTATE_SUITES"
UNIT_SUITES = (
    *(
        f"tests/unit/{one}"
        for one in (*PACKAGES, "operator", "ray", "client", "admission", "recording")
    ),
    "tests/properties",
)
CLUSTER_SUITES = tuple(
    str(path.relative_to(ROOT))
    for names in (
        "ray*",
        "reconcile*",
        "runtime*",
        "idlesuspend",
        "canary_analysis",
        "waking",
        "takeover*",
        "permissions",
    )
    for path in sorted((ROOT / "tests/cluster").glob(f"test_{names}.py"))
)
"""Controllers and the runtime on the embedded plane, in process."""
_SIMULATION = "tests/simulation/test_simulation.py"
SIMULATION_SUITES = (
    f"{_SIMULATION}::test_a_kept_story_is_told_without_violation",
    *(f"{_SIMULATION}::test_no_seed_violates_an_oracle[{piece}]" for piece in range(4)),
)
"""The kept stories, and forty seeds."""


class TestMap(msgspec.Struct):
    __test__ = False

    tests: list[str] = []
    """Node ids of the tests that passed."""
    seconds: list[float] = []
    """CPU time of each test: the machine may be busy."""
    lines: dict[str, dict[int, list[int]]] = {}
    """By path and line: positions in `tests`."""
    imported: dict[str, list[int]] = {}
    """By path: lines that ran outside of tests, so when modules were imported."""

    def covering(self, path: str, lines: Iterable[int]) -> set[int]:
        known = self.lines.get(path, {})
        return {test for line in lines for test in known.get(line, ())}

    def of_file(self, path: str) -> set[int]:
        return self.covering(path, self.lines.get(path, {}))

    def fastest_first(self, tests: Iterable[int]) -> list[int]:
        return sorted(tests, key=lambda test: (self.seconds[test], test))

    def add(self, part: TestMap) -> None:
        offset = len(self.tests)
        self.tests += part.tests
        self.seconds += part.seconds
        for path, found in part.lines.items():
            known = self.lines.setdefault(path, {})
            for line, tests in found.items():
                known.setdefault(line, []).extend(test + offset for test in tests)
        for path, lines in part.imported.items():
            self.imported[path] = sorted({*self.imported.get(path, ()), *lines})


def suites() -> list[str]:
    """All; or those that `--suite` names, also in the processes that it starts."""
    if chosen := os.environ.get(CHOSEN_SUITES):
        return chosen.split()
    return [*UNIT_SUITES, *CLUSTER_SUITES, *SIMULATION_SUITES]


def sources() -> list[Path]:
    return sorted(
        path for package in PACKAGES for path in (ROOT / "src/manta" / package).rglob("*.py")
    )


def fingerprint(suite: str) -> str:
    """Of everything that the part of a suite depends on."""
    digest = hashlib.sha256()
    whole = ROOT / suite.partition("::")[0]
    folder = whole.parent if "simulation" in suite else whole
    files = [whole] if folder.is_file() else sorted(folder.rglob("*.py"))
    folders = (*(ROOT / "src/manta" / one for one in (*PACKAGES, "api")), ROOT / "tests/support")
    for path in (*files, *(one for each in folders for one in sorted(each.rglob("*.py")))):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def load_map() -> TestMap:
    """The map of all suites. Parts that are not cached for this tree are built, each in a process."""
    whole = TestMap()
    for suite in suites():
        whole.add(_part(suite))
    return whole


def _part(suite: str) -> TestMap:
    name = suite.replace("/", "-").replace("::", "-")
    path = CACHE / f"{name}-{fingerprint(suite)}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        code = f"from tools.mutate.test_map import build; build({suite!r}, {str(path)!r})"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=sys.stderr)
    return msgspec.json.decode(path.read_bytes(), type=TestMap)


def build(suite: str, path: str) -> None:
    """Run the tests in this process, which must not have imported manta yet."""
    from coverage import Coverage

    recorder = Coverage(
        data_file=None,
        branch=False,
        include=[f"{ROOT}/src/manta/{one}/*" for one in PACKAGES],
        config_file=False,
    )
    plugin = _Contexts(recorder)
    recorder.start()
    try:
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", suite], plugins=[plugin])
    finally:
        recorder.stop()
    tests = list(plugin.seconds)
    lines = dict(_lines(recorder, {test: at for at, test in enumerate(tests)}))
    found = TestMap(tests, list(plugin.seconds.values()), lines, dict(_imported(recorder)))
    Path(path).write_bytes(msgspec.json.encode(found))


def _lines(recorder: Any, passed: dict[str, int]) -> Iterator[tuple[str, dict[int, list[int]]]]:
    data = recorder.get_data()
    for path in data.measured_files():
        contexts = data.contexts_by_lineno(path)
        yield (
            str(Path(path).relative_to(ROOT)),
            {
                line: sorted(passed[one] for one in found if one in passed)
                for line, found in contexts.items()
            },
        )


def _imported(recorder: Any) -> Iterator[tuple[str, list[int]]]:
    data = recorder.get_data()
    for path in data.measured_files():
        contexts = data.contexts_by_lineno(path)
        yield (
            str(Path(path).relative_to(ROOT)),
            sorted(line for line, found in contexts.items() if "" in found),
        )


class _Contexts:
    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self._recorder.switch_context(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            if item.nodeid in self.seconds:
                self.seconds[item.nodeid] = round(time.process_time() - began, 4)
            self._recorder.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = 0.0
        elif report.failed:
            self.seconds.pop(report.nodeid, None)
