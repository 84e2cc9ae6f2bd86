"""A common change touches at most two source files. Each trial is applied in memory, and must take effect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.docs.package_map import CHANGES
from tools.docs.trial_changes import TRIALS

SOURCE = Path(__file__).parents[2] / "src/manta"

IMPORT_EDITED = """
import json, sys
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location

edited = json.load(sys.stdin)

class Loader(SourceFileLoader):
    def get_code(self, name):
        return compile(edited[name][1], self.path, "exec")

class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in edited:
            return spec_from_file_location(name, edited[name][0], loader=Loader(name, edited[name][0]))

sys.meta_path.insert(0, Finder())
"""


def run(check: str, edited: dict[str, tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", IMPORT_EDITED + check],
        input=json.dumps(edited),
        capture_output=True,
        text=True,
        check=False,
    )


def edited_modules(edits: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """{module: its file and new text}."""
    modules = {}
    for path, (before, after) in edits.items():
        file = SOURCE / path
        text = file.read_text() if before else ""
        assert text.count(before) == 1 or not before, f"{path}: {before!r} is not there once"
        new = text.replace(before, after) if before else after
        modules[f"manta.{path.removesuffix('.py').replace('/', '.')}"] = (str(file), new)
    return modules


def test_ten_changes_of_the_map_are_tried() -> None:
    assert len(TRIALS) >= 10
    assert TRIALS.keys() <= {change.what for change in CHANGES}


@pytest.mark.parametrize("what", TRIALS)
def test_a_change_touches_at_most_two_source_files(what: str) -> None:
    trial = TRIALS[what]
    assert len(trial.edits) <= 2
    assert run(trial.check, {}).returncode, "the check passes without the change"
    changed = run(trial.check, edited_modules(dict(trial.edits)))
    assert changed.returncode == 0, changed.stderr
