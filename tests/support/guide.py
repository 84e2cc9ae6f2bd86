"""The guide's fenced blocks: YAML to be applied, commands to be run, and what is said not to be run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs/guide"
PAGES = sorted(path.name for path in GUIDE.glob("*.md"))
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")

ELSEWHERE: dict[tuple[str, str], str] = {
    ("jobs.md", "$ kubectl wait --for=condition=Complete"): "tests/cluster/test_rayjob.py",
    ("jobs.md", "$ manta submit"): "tests/cluster/test_rayjob_submit.py",
    ("laptop.md", "$ manta up --with examples/quickstart.yaml"): "tests/e2e/test_quickstart.py",
    ("laptop.md", "$ manta backup"): "tests/security/test_backup.py",
    ("laptop.md", "# ~/.manta/node/images.yaml"): "tests/unit/localplane/node/images/test_table.py",
    ("serving.md", "$ kubectl apply -f examples/rayservice.yaml"): "tests/e2e/test_rayservice.py",
    ("serving.md", "$ manta plan -f service.yaml"): "tests/unit/cli/test_plan.py",
    ("serving.md", "$ manta upgrade echo"): "tests/e2e/test_rayservice.py",
}
"""Blocks whose own test is another one: page, and how the block begins."""


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    not_run: str = ""
    """Why not, when it is said above the block or in ELSEWHERE."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """What is typed; lines that end in a backslash go on."""
        joined = self.text.replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    fence: list[str] | None = None
    language, begun, reason, indent = "", 0, "", 0
    for number, written in enumerate((GUIDE / page).read_text().splitlines(), 1):
        line = written[indent:]
        if fence is None and line.lstrip().startswith("```"):  # also in an item of a list
            indent = len(line) - len(line.lstrip())
            fence, language, begun = [], line.strip()[3:].strip(), number
        elif fence is not None and line.startswith("```"):
            indent = 0
            text = "\n".join(fence)
            why = reason or _elsewhere(page, text)
            found.append(Block(page, begun, language, text, why))
            fence, reason = None, ""
        elif fence is not None:
            fence.append(line)
        elif line.strip():
            said = _NOT_RUN.fullmatch(line.strip())
            reason = said[1] if said else ""
    return found


def _elsewhere(page: str, text: str) -> str:
    return next(
        (
            reason
            for (where, start), reason in ELSEWHERE.items()
            if where == page and text.startswith(start)
        ),
        "",
    )


BLOCKS = [block for page in PAGES for block in blocks(page)]
