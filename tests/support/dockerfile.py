"""The Dockerfile as a list of steps, for tests that read it and for tests that run it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
IGNORED = (ROOT / ".dockerignore").read_text().splitlines()


def instructions() -> list[tuple[str, str]]:
    """(keyword, rest), with continued lines joined and comments left out."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(keyword, " ".join(rest.split())) for keyword, rest in found]


STEPS = instructions()


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for keyword, rest in STEPS:
        if keyword == "FROM":
            found.append([])
        if found:
            found[-1].append((keyword, rest))
    return found


def sources() -> list[str]:
    """What .dockerignore lets through to the builder."""
    return [line[1:] for line in IGNORED if line.startswith("!")]
