"""What the README claims can be looked up."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in re.findall(r"^\|.+\|$", README.partition("## Compatibility")[2], flags=re.MULTILINE)
][2:]


def test_every_row_that_says_yes_names_a_proof_that_is_there() -> None:
    missing = [
        (feature, proof)
        for feature, _, ours, proof in ROWS
        if ours.startswith("yes") and not (ROOT / proof.strip("`")).is_file()
    ]
    assert ROWS
    assert missing == []


def test_the_map_of_the_tree_leads_somewhere() -> None:
    rows = re.findall(r"^\| (`[^|]+`[^|]*) \|", README, flags=re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w/.]+)`", row)]
    folders = [name for name in named if name.startswith(("src/", "tests", "examples"))]
    assert folders
    assert [name for name in folders if not (ROOT / name).exists()] == []


def test_the_targets_that_it_tells_to_run_exist() -> None:
    targets = set(
        re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    )
    reported = set(re.findall(r"\$ make ([a-z0-9-]+)", README))
    assert reported
    assert reported <= targets
