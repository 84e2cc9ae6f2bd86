"""The ID of a plane in the names of its interfaces, cgroups and packet rules.

It is a hash of the plane's directory: several planes can run on one machine, and what a killed plane left
behind can be found.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

NODE_DIRECTORY = "node"
"""The directory of the node agent inside the plane's directory."""
_BRIDGE = re.compile(r"mt([0-9a-f]{6})br")


def plane_of(directory: Path) -> Path:
    """The plane's directory, given the directory of its node agent."""
    return directory.parent if directory.name == NODE_DIRECTORY else directory


def plane_id(directory: Path) -> str:
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:6]


def interface_prefix(directory: Path) -> str:
    return f"mt{plane_id(directory)}"


def bridge_name(directory: Path) -> str:
    return f"{interface_prefix(directory)}br"


def id_of_bridge(name: str) -> str | None:
    """The ID of the plane whose bridge has this name; None for any other interface."""
    found = _BRIDGE.fullmatch(name)
    return found.group(1) if found else None
