"""Write the CRDs that the package ships: src/manta/api/schemas/*.json.

    python -m tools.crds.generate [--check]

With --check nothing is written, and the exit code says whether the files are up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.crds.definitions import KINDS, Kind, definition

OUTPUT = Path(__file__).parents[2] / "src/manta/api/schemas"


def printed(kind: Kind) -> str:
    return json.dumps(definition(kind), separators=(",", ":"), ensure_ascii=False) + "\n"


def path_of(kind: Kind) -> Path:
    return OUTPUT / f"{kind.name}.json"


def stale() -> list[Path]:
    """The files that differ from what the types say."""
    return [
        path_of(kind)
        for kind in KINDS
        if not path_of(kind).exists() or path_of(kind).read_text() != printed(kind)
    ]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        for path in stale():
            print(f"{path} is out of date; run python -m tools.crds.generate")
        return 1 if stale() else 0
    OUTPUT.mkdir(exist_ok=True)
    for kind in KINDS:
        path_of(kind).write_text(printed(kind))
        print(f"{path_of(kind)}: {path_of(kind).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
