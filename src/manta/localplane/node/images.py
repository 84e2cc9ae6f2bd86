"""Images become environments: a virtual environment made once by uv, or programs of the machine.

Environments are shared by all planes of a user, made under a lock and marked when complete, so that
a killed build is made anew. Containers see them through overlays and cannot spoil them.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.localplane.node.imagetable import (
    Recipe,
    Rule,
    TableError,
    environment_key,
    find_recipe,
    is_reference,
    read_rules,
)
from manta.localplane.node.libc import end_with_parent

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMPLETE = ".manta-complete"
_OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class PullError(Exception):
    """The image cannot be offered. `reason` is what the container waits for."""

    def __init__(self, message: str, reason: str = "ErrImagePull") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Environment:
    """What an image offers, ready to be used by containers."""

    image: str
    image_id: str
    env: Mapping[str, str]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workdir: str = "/"
    links: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    """Directories of the machine that the environment is made of."""


class ImageStore:
    def __init__(self, cache: Path, table: Path) -> None:
        """`table` is the user's images.yaml, read anew when it changes; it need not exist."""
        self._cache = cache
        self._table = table
        self._rules: tuple[Rule, ...] = ()
        self._read_at: float | None = None
        self._building: dict[str, asyncio.Task[Path]] = {}

    # ── reading the table ──────────────────────────────────────────────────────────────
    def recipe(self, image: str) -> Recipe:
        if not is_reference(image):
            message = f'Failed to apply default image tag "{image}": invalid reference format'
            raise PullError(message, "InvalidImageName")
        recipe = find_recipe(self._current_rules(), image)
        if recipe is None:
            raise PullError(
                f'Failed to pull image "{image}": no rule of this machine matches it. Map it to an'
                f" environment in {self._table}, for example:"
                f" images: [{{image: '{image}', packages: ['ray[default]', my-package]}}]"
            )
        return recipe

    def _current_rules(self) -> tuple[Rule, ...]:
        changed = self._table.stat().st_mtime if self._table.exists() else 0.0
        if changed != self._read_at:
            try:
                own = _load(self._table) if changed else ()
            except TableError as error:
                raise PullError(str(error)) from error
            self._rules = own + _load(Path(__file__).with_name("images.yaml"))
            self._read_at = changed
        return self._rules

    # ── finding and making ─────────────────────────────────────────────────────────────
    def present(self, image: str) -> Environment | None:
        """The environment if nothing has to be made for it."""
        recipe = self.recipe(image)
        if recipe.packages is None:
            return self._of_the_machine(recipe)
        directory = self._directory(recipe)
        return self._offer(recipe, directory) if (directory / _COMPLETE).exists() else None

    def substitution(self, image: str) -> str:
        """What is not as the image's name says; empty when all is."""
        recipe = self.recipe(image)
        python = self._python(recipe)
        if recipe.packages is None or recipe.python in ("", python):
            return ""
        return (
            f"Python {recipe.python} is not on this machine; image {image} is offered"
            f" with Python {python}"
        )

    async def ensure(self, image: str) -> Environment:
        """The environment, made if need be. Several Pods wait for one build."""
        recipe = self.recipe(image)
        if recipe.packages is None:
            return self._of_the_machine(recipe)
        directory = self._directory(recipe)
        building = self._building.get(directory.name)
        if building is None:
            building = asyncio.create_task(self._make(recipe, directory))
            self._building[directory.name] = building
            building.add_done_callback(lambda _: self._building.pop(directory.name, None))
        return self._offer(recipe, await asyncio.shield(building))

    def _python(self, recipe: Recipe) -> str:
        """The wanted version if the machine has it, else the agent's own."""
        wanted = recipe.python
        if not wanted or wanted == _OWN_PYTHON or find_python(wanted) is None:
            return _OWN_PYTHON
        return wanted

    def _directory(self, recipe: Recipe) -> Path:
        packages = recipe.packages or ()
        digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:8]
        return self._cache / environment_key(recipe, self._python(recipe), [digest])

    async def _make(self, recipe: Recipe, directory: Path) -> Path:
        self._cache.mkdir(parents=True, exist_ok=True)
        async with _locked(self._cache / f"{directory.name}.lock"):
            if (directory / _COMPLETE).exists():
                return directory
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            uv = await find_uv(self._cache)
            interpreter = find_python(self._python(recipe)) or sys.executable
            await _run(recipe, uv, "venv", "--seed", "--python", interpreter, str(directory))
            if recipe.packages:
                python = str(directory / "bin" / "python")
                install = ("pip", "install", "--compile-bytecode", "--python", python)
                await _run(recipe, uv, *install, *recipe.packages)
            (directory / _COMPLETE).touch()
        return directory

    # ── offering ───────────────────────────────────────────────────────────────────────
    def _of_the_machine(self, recipe: Recipe) -> Environment:
        missing = [name for name in recipe.programs if shutil.which(name, path=SYSTEM_PATH) is None]
        if missing:
            raise PullError(
                f'Failed to pull image "{recipe.image}": it stands for the program {missing[0]} of'
                f" this machine, which is not installed. Install it (for example: apt-get install"
                f" {missing[0]}), or map the image to an environment in {self._table}"
            )
        if recipe.environment and not Path(recipe.environment, "bin").is_dir():
            raise PullError(
                f'Failed to pull image "{recipe.image}": {self._table} maps it to'
                f" {recipe.environment}, which has no directory bin"
            )
        return self._offer(recipe, Path(recipe.environment) if recipe.environment else None)

    def _offer(self, recipe: Recipe, directory: Path | None) -> Environment:
        shims = write_shims(self._cache / "shims")
        first = [str(directory / "bin")] if directory else []
        env = {"PATH": ":".join([*first, SYSTEM_PATH, str(shims)]), "HOME": "/root"}
        if directory:
            env["VIRTUAL_ENV"] = str(directory)
        identity = directory.name if directory else "machine"
        return Environment(
            image=recipe.image,
            image_id=f"manta://{identity}",
            env={**env, **recipe.env},
            entrypoint=recipe.entrypoint,
            command=recipe.command,
            workdir=recipe.workdir,
            paths=tuple(str(one) for one in (directory, shims) if one),
            links={
                link: goal.replace("{environment}", str(directory))
                for link, goal in recipe.links.items()
            },
        )


def _load(path: Path) -> tuple[Rule, ...]:
    try:
        return read_rules(read_yaml(path.read_bytes()), str(path))
    except (DocumentError, OSError) as error:
        raise TableError(f"{path}: {error}") from error


async def _run(recipe: Recipe, *command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        preexec_fn=end_with_parent,
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        words = " ".join(errors.decode(errors="replace").split())
        raise PullError(f'Failed to pull image "{recipe.image}": {_cause(recipe, words)}')


def _cause(recipe: Recipe, words: str) -> str:
    """The most likely cause first; what the tool itself says follows."""
    said = words[-1000:]
    if "No space left on device" in words:
        return f"the disk is full; free some space, then it is tried again. uv says: {said}"
    if "No solution found" in words:
        wanted = " ".join(recipe.packages or ())
        return f"the package index has no {wanted} for this Python. uv says: {said}"
    return said


def find_python(version: str) -> str | None:
    """An interpreter of this version: our own, on the path, or kept by uv or pyenv.

    pyenv's shims are passed over: they answer for versions that they then refuse to run.
    """
    if version == _OWN_PYTHON:
        return str(Path(sys.base_prefix, "bin", f"python{version}"))
    path = [one for one in os.get_exec_path() if not one.endswith("/shims")]
    if found := shutil.which(f"python{version}", path=":".join(path)):
        return found
    home = Path.home()
    kept = (
        (home / ".local/share/uv/python", f"cpython-{version}.*/bin/python{version}"),
        (home / ".pyenv/versions", f"{version}.*/bin/python{version}"),
    )
    found_kept = (path for base, pattern in kept for path in sorted(base.glob(pattern)))
    return next((str(path) for path in found_kept), None)


async def find_uv(cache: Path) -> str:
    """uv beside our Python, in the project's cache, on the path, or freshly installed."""
    beside = Path(sys.executable).with_name("uv")
    project = Path(sys.prefix).parent / ".cache" / "uv" / "bin" / "uv"
    own = cache / "tools" / "bin" / "uv"
    for candidate in (beside, project, own):
        if os.access(candidate, os.X_OK):
            return str(candidate)
    if found := shutil.which("uv"):
        return found
    recipe = Recipe(image="uv")
    await _run(recipe, sys.executable, "-m", "venv", str(cache / "tools"))
    await _run(recipe, str(cache / "tools" / "bin" / "pip"), "install", "--quiet", "uv")
    return str(own)


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """One build at a time, also among several planes."""
    with path.open("w") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
        yield


_WGET = """#!{python} -IS
# A stand-in for wget on machines without it: enough for health checks.
import sys, urllib.error, urllib.request
arguments, timeout, target, quiet, output = sys.argv[1:], 900.0, None, False, None
while arguments:
    word = arguments.pop(0)
    if word in ("-T", "--timeout", "-t", "--tries", "-O", "--output-document"):
        word, value = word, arguments.pop(0)
    elif word.startswith("--") and "=" in word:
        word, _, value = word.partition("=")
    elif word[:2] in ("-T", "-t", "-O") and len(word) > 2:
        word, value = word[:2], word[2:]
    else:
        value = ""
    if word in ("-T", "--timeout"):
        timeout = float(value)
    elif word in ("-O", "--output-document"):
        output = value
    elif not word.startswith("-"):
        target = word
if target is None:
    sys.exit("wget: missing URL")
try:
    answer = urllib.request.urlopen(target if "://" in target else "http://" + target, timeout=timeout)
    content = answer.read()
except urllib.error.HTTPError as error:
    sys.exit(f"wget: server returned error: HTTP/1.1 {{error.code}} {{error.reason}}")
except OSError as error:
    print(f"wget: {{error}}", file=sys.stderr)
    sys.exit(4)
if output == "-":
    sys.stdout.buffer.write(content)
else:
    open(output or target.rstrip("/").rpartition("/")[2] or "index.html", "wb").write(content)
"""


def write_shims(directory: Path) -> Path:
    """Programs that images have and a bare machine may lack; last on the path."""
    shim = directory / "wget"
    text = _WGET.format(python=sys.executable)
    if not shim.exists() or shim.read_text() != text:
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / f".wget.{os.getpid()}"
        partial.write_text(text)
        partial.chmod(0o755)
        partial.rename(shim)
    return directory
