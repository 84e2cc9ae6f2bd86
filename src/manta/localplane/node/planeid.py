"""How a plane is named in what the kernel keeps: interfaces, cgroups, packet rules.

Six hex digits of its directory's name: several planes may live on one machine, and what a killed one
left behind is found without it.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

NODE_DIRECTORY = "node"
"""Where `manta up` lets the agent keep its files, inside the plane's directory."""
_BRIDGE = re.compile(r"mt([0-9a-f]{6})br")


def plane_of(directory: Path) -> Path:
    """The directory of the whole plane, from that of its agent."""
    return directory.parent if directory.name == NODE_DIRECTORY else directory


def plane_id(directory: Path) -> str:
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:6]


def interface_prefix(directory: Path) -> str:
    return f"mt{plane_id(directory)}"


def bridge_name(directory: Path) -> str:
    return f"{interface_prefix(directory)}br"


def id_of_bridge(name: str) -> str | None:
    """Whose bridge this is; None for interfaces of others."""
    found = _BRIDGE.fullmatch(name)
    return found.group(1) if found else None
