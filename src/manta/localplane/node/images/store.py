"""Provides an environment for each image: a virtual environment built by uv, or programs of the machine.

All planes of a user share the environments. They are built under a lock and marked when complete, so that
an interrupted build is repeated. Containers see them through overlays and cannot change them.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.localplane.kubelet import pull_failed
from manta.localplane.node.images.shims import write_shims
from manta.localplane.node.images.table import (
    Recipe,
    Rule,
    TableError,
    environment_key,
    find_recipe,
    is_reference,
    read_rules,
)
from manta.localplane.node.images.toolchain import (
    OWN_PYTHON,
    ToolError,
    find_python,
    find_uv,
    install_python,
    run_tool,
)

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMPLETE = ".manta-complete"


class PullError(Exception):
    """The image cannot be provided. `reason` is the waiting reason of the container."""

    def __init__(self, message: str, reason: str = "ErrImagePull") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Environment:
    """What a container uses of an image."""

    image: str
    image_id: str
    env: Mapping[str, str]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workdir: str = "/"
    links: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    """The directories of the machine that the environment consists of."""


class ImageStore:
    def __init__(self, cache: Path, table: Path) -> None:
        """`table` is the user's images.yaml, read again when it changes; it need not exist."""
        self._cache = cache
        self._table = table
        self._rules: tuple[Rule, ...] = ()
        self._read_at: float | None = None
        self._building: dict[str, asyncio.Task[Path]] = {}

    # ── reading the table ──────────────────────────────────────────────────────────────
    def recipe(self, image: str) -> Recipe:
        """How to make the image. Raises PullError if no rule matches it."""
        if not is_reference(image):
            message = f'Failed to apply default image tag "{image}": invalid reference format'
            raise PullError(message, "InvalidImageName")
        recipe = find_recipe(self._current_rules(), image)
        if recipe is None:
            cause = (
                f"no rule of this machine matches it. Map it to an environment in {self._table},"
                f" for example: images: [{{image: '{image}', packages: ['ray[default]', my-package]}}]"
            )
            raise PullError(pull_failed(image, cause))
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

    # ── finding and building ───────────────────────────────────────────────────────────
    def present(self, image: str) -> Environment | None:
        """The environment if it need not be built, else None. Raises PullError."""
        recipe = self.recipe(image)
        if recipe.packages is None:
            return self._of_the_machine(recipe)
        directory = self._directory(recipe)
        return self._offer(recipe, directory) if (directory / _COMPLETE).exists() else None

    async def ensure(self, image: str) -> Environment:
        """The environment, built if necessary; several Pods share one build. Raises PullError."""
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

    def _directory(self, recipe: Recipe) -> Path:
        packages = recipe.packages or ()
        digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:8]
        return self._cache / environment_key(recipe, recipe.python or OWN_PYTHON, [digest])

    async def _make(self, recipe: Recipe, directory: Path) -> Path:
        self._cache.mkdir(parents=True, exist_ok=True)
        async with _locked(self._cache / f"{directory.name}.lock"):
            if (directory / _COMPLETE).exists():
                return directory
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            try:
                await self._build(recipe, directory)
            except ToolError as error:
                cause = _cause(recipe, str(error))
                raise PullError(pull_failed(recipe.image, cause)) from error
            (directory / _COMPLETE).touch()
        return directory

    async def _build(self, recipe: Recipe, directory: Path) -> None:
        uv = await find_uv(self._cache)
        interpreter = await self._interpreter(recipe, uv)
        await run_tool(uv, "venv", "--seed", "--python", interpreter, str(directory))
        if recipe.packages:
            python = str(directory / "bin" / "python")
            install = ("pip", "install", "--compile-bytecode", "--python", python)
            await run_tool(uv, *install, *recipe.packages)

    async def _interpreter(self, recipe: Recipe, uv: str) -> str:
        """An interpreter of exactly the version that the image names, downloaded if necessary."""
        version = recipe.python or OWN_PYTHON
        try:
            return find_python(version, self._pythons) or await install_python(
                uv, version, self._pythons
            )
        except ToolError as error:
            raise ToolError(
                f"the image names Python {version}, which is not on this machine and could not be"
                f" downloaded. Install python{version}, name an image with Python {OWN_PYTHON}"
                f" (-py{OWN_PYTHON.replace('.', '')}), or map the image in {self._table}. {error}"
            ) from error

    @property
    def _pythons(self) -> Path:
        return self._cache / "pythons"

    # ── environments ───────────────────────────────────────────────────────────────────
    def _of_the_machine(self, recipe: Recipe) -> Environment:
        missing = [name for name in recipe.programs if shutil.which(name, path=SYSTEM_PATH) is None]
        if missing:
            cause = (
                f"it stands for the program {missing[0]} of this machine, which is not installed."
                f" Install it (for example: apt-get install {missing[0]}), or map the image to an"
                f" environment in {self._table}"
            )
            raise PullError(pull_failed(recipe.image, cause))
        if recipe.environment and not Path(recipe.environment, "bin").is_dir():
            cause = f"{self._table} maps it to {recipe.environment}, which has no directory bin"
            raise PullError(pull_failed(recipe.image, cause))
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
            paths=tuple(
                str(one) for one in (directory, shims, self._pythons) if one and one.exists()
            ),
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


def _cause(recipe: Recipe, output: str) -> str:
    """The most likely cause, followed by the tool's own message."""
    end = output[-1000:]
    if "No space left on device" in output:
        return f"the disk is full; free some space, and the pull is retried. uv says: {end}"
    if "No solution found" in output:
        wanted = " ".join(recipe.packages or ())
        return f"the package index has no {wanted} for this Python. uv says: {end}"
    return end


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Hold the lock: one build at a time, also among several planes."""
    with path.open("w") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
        yield
