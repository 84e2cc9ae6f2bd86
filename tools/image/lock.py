"""Write requirements-image.lock: of requirements.lock, what the operator needs to run, hashes included.

    python -m tools.image.lock [--check]

Which packages need which others is read from those in .venv; versions and hashes are the lock's own.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK, OUTPUT = ROOT / "requirements.lock", ROOT / "requirements-image.lock"
EXTRAS = ("history",)
"""The sidecars of Ray Pods and the history server run from the operator's image."""
HEAD = "# Written by `python -m tools.image.lock` from requirements.lock. Do not edit.\n"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, str]:
    """The lock's entries by package: version, marker and hashes, without the remarks."""
    entries: dict[str, list[str]] = {}
    name = ""
    for line in LOCK.read_text().splitlines():
        if found := re.match(r"([A-Za-z0-9_.-]+)==", line):
            name = canonical(found[1])
            entries[name] = []
        if name and not line.lstrip().startswith("#"):
            entries[name].append(line)
    return {one: "\n".join(lines) + "\n" for one, lines in entries.items()}


def _needs(requirement: str) -> str:
    """The package that a requirement names; empty when it is only for an extra."""
    if "extra ==" in requirement:
        return ""
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    return canonical(found[0]) if found else ""


def runtime_closure(known: dict[str, str]) -> list[str]:
    """The project's dependencies and those of the extras, and theirs; what the lock does not know is for other platforms."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for name in EXTRAS for one in project["optional-dependencies"][name]]
    wanted = [_needs(one) for one in (*project["dependencies"], *extras)]
    closure: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in known and name not in closure:
            closure.add(name)
            wanted += [_needs(one) for one in requires(name) or ()]
    return sorted(closure)


def text() -> str:
    known = locked()
    return HEAD + "".join(known[name] for name in runtime_closure(known))


def main(arguments: list[str]) -> int:
    made = text()
    if "--check" in arguments:
        return int(not OUTPUT.exists() or OUTPUT.read_text() != made)
    OUTPUT.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
