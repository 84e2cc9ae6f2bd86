"""The tools that build environments: uv, and Python interpreters of a given version."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from manta.localplane.node.host.libc import end_with_parent

OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
UV_VERSION = "0.13.7"
"""Pinned version that is installed if neither the extra `up` nor the machine has uv."""


class ToolError(Exception):
    """A tool failed; the message is its stderr."""


async def run_tool(*command: str, env: Mapping[str, str] | None = None) -> None:
    """Run a command to its end. Raises ToolError with its stderr."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        env={**os.environ, **(env or {})},
        preexec_fn=end_with_parent,
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise ToolError(" ".join(errors.decode(errors="replace").split()))


# ── Python ───────────────────────────────────────────────────────────────────────────────
def find_python(version: str, managed: Path | None = None) -> str | None:
    """An interpreter of this version: our own, in PATH, in `managed`, or of uv or pyenv; None if missing.

    pyenv's shims are skipped: they exist for versions that they then refuse to run.
    """
    if version == OWN_PYTHON:
        return str(Path(sys.base_prefix, "bin", f"python{version}"))
    path = [one for one in os.get_exec_path() if not one.endswith("/shims")]
    if found := shutil.which(f"python{version}", path=":".join(path)):
        return found
    home = Path.home()
    kept = [
        (home / ".local/share/uv/python", f"cpython-{version}.*/bin/python{version}"),
        (home / ".pyenv/versions", f"{version}.*/bin/python{version}"),
    ]
    if managed is not None:
        kept.insert(0, (managed, f"cpython-{version}.*/bin/python{version}"))
    found_kept = (path for base, pattern in kept for path in sorted(base.glob(pattern)))
    return next((str(path) for path in found_kept), None)


async def install_python(uv: str, version: str, managed: Path) -> str:
    """Install an interpreter with uv and return its path. Raises ToolError."""
    place = {"UV_PYTHON_INSTALL_DIR": str(managed), "UV_PYTHON_INSTALL_BIN": "0"}
    await run_tool(uv, "python", "install", version, env=place)
    found = find_python(version, managed)
    if found is None:
        raise ToolError(f"uv installed no Python {version} in {managed}")
    return found


# ── uv ───────────────────────────────────────────────────────────────────────────────────
async def find_uv(cache: Path) -> str:
    """The path of uv: from the extra `up`, next to our Python, in the project's cache or in PATH; else the
    pinned version is installed. Raises ToolError."""
    project = Path(sys.prefix).parent / ".cache" / "uv" / "bin" / "uv"
    own = cache / "tools" / f"uv-{UV_VERSION}"
    candidates = (_of_the_package(), Path(sys.executable).with_name("uv"), project, own / "bin/uv")
    for candidate in candidates:
        if candidate is not None and os.access(candidate, os.X_OK):
            return str(candidate)
    if found := shutil.which("uv"):
        return found
    await run_tool(sys.executable, "-m", "venv", str(own))
    await run_tool(str(own / "bin" / "pip"), "install", "--quiet", f"uv=={UV_VERSION}")
    return str(own / "bin" / "uv")


def _of_the_package() -> Path | None:
    if importlib.util.find_spec("uv") is None:
        return None
    from uv import find_uv_bin

    try:
        return Path(find_uv_bin())
    except FileNotFoundError:
        return None  # a broken installation: the package without its program
