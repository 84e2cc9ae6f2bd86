"""Every `manta` command and make target that a page names exists, with every flag that it shows."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from manta.cli.main import VERBS, _parser

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")),
    *sorted(ROOT.glob("docs/guide/*.md")),
    *sorted(ROOT.glob("docs/internals/*.md")),
]
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_SHOWN = re.compile(
    r"`(?:\.venv/bin/)?((?:manta|make) [^`\n]+)`|^\s*\$ ((?:manta|make) .+)$", re.MULTILINE
)


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every command, up to a pipe, a comment, a list or the command that it runs."""
    for quoted, typed in _SHOWN.findall(page.read_text()):
        yield re.split(r" -- | \\?\||#|;|&&|,", quoted or typed)[0].split()


def parser_of(words: list[str]) -> argparse.ArgumentParser:
    """The parser of a verb, or of its action (`manta history tasks`)."""
    _, verbs = _parser(words[0])
    parser: argparse.ArgumentParser = verbs.choices[words[0]]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return next((action.choices[one] for one in words if one in action.choices), parser)
    return parser


def _flags(word: str) -> list[str]:
    """`--name=value` is one flag, `-it` are two, and other words are none."""
    if word.startswith("--"):
        return [word.partition("=")[0]]
    letters = re.fullmatch(r"-([a-zA-Z]+)", word)
    return [f"-{one}" for one in letters[1]] if letters else []


def complaints(page: Path) -> Iterator[str]:
    for program, *words in commands(page):
        shown = " ".join((program, *words))
        if program == "make":
            named = [one for one in words if re.fullmatch(r"[a-z0-9-]+", one)]
            yield from (f"{shown}: no target {one}" for one in named if one not in TARGETS)
        elif words[0] not in VERBS and words[0].islower():
            yield f"{shown}: no verb {words[0]}"
        elif words[0] in VERBS:
            known = parser_of(words)._option_string_actions
            flags = [flag for one in words[1:] for flag in _flags(one)]
            yield from (f"{shown}: no flag {one}" for one in flags if one not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_can_be_typed(page: Path) -> None:
    assert list(complaints(page)) == []


def test_a_dead_command_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`manta gett`, `manta get pods --nope`, `make nothing`\n\n$ manta history list --no\n"
    )
    assert len(list(complaints(page))) == 4
