"""The example manifests, which the wheel carries."""

from __future__ import annotations

from pathlib import Path

import manta

_PACKAGE = Path(manta.__file__).parent


def example(name: str) -> Path:
    """An example's file: beside the code in an installed wheel, at the top of a working tree.

    Raises FileNotFoundError for an unknown example.
    """
    for directory in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples"):
        if (directory / name).is_file():
            return directory / name
    raise FileNotFoundError(f"no example {name}")
