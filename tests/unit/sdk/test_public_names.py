"""What `import manta` offers: loaded when used, typed, documented, and the same on every platform."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

import manta
import manta.compat
import manta.sdk

ROOT = Path(__file__).parents[3]
NAMES = [name for name in manta.__all__ if name != "__version__"]
MODULES = [
    importlib.import_module(found.name)
    for package in (manta.sdk, manta.compat)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
LINUX_ONLY = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "uvloop")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(manta, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'manta' has no attribute 'Clint'"):
        manta.Clint  # type: ignore[attr-defined]  # noqa: B018
    assert {"Client", "__version__"} <= set(dir(manta))


def test_the_stub_has_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse((ROOT / "src/manta/__init__.pyi").read_text())
    stub = {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert stub == manta._HOME  # type: ignore[attr-defined]


def _alone(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_manta_loads_nothing_else() -> None:
    """Commands and the operator import it too."""
    code = (
        "import sys; before = {*sys.modules}; import manta; print(sorted({*sys.modules} - before))"
    )
    assert _alone(code).strip() == "['manta']"


def test_the_client_needs_no_heavy_module_before_its_first_request() -> None:
    heavy = ("aiohttp", "cryptography", "kubernetes", "prometheus_client", "rich", "yaml")
    code = f"import sys, manta; manta.Client; print([m for m in {heavy!r} if m in sys.modules])"
    assert _alone(code).strip() == "[]"


def test_it_is_imported_without_the_modules_that_only_linux_has() -> None:
    """Windows has none of them."""
    modules = [module.__name__ for module in MODULES]
    code = f"""
import sys, importlib
for name in {LINUX_ONLY!r}:
    sys.modules[name] = None
for name in {modules!r}:
    importlib.import_module(name)
import manta
for name in manta.__all__:
    getattr(manta, name)
"""
    _alone(code)


# ── typed and documented ─────────────────────────────────────────────────────────────────


def _public_functions() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                continue
            if inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            elif inspect.isclass(value):
                yield from _methods(value)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(cls).items():
        function = value.fget if isinstance(value, property) else value
        function = getattr(function, "__func__", getattr(function, "func", function))
        if inspect.isfunction(function) and (not name.startswith("_") or name == "__init__"):
            yield f"{cls.__module__}.{cls.__qualname__}.{name}", function


FUNCTIONS = {name: function for name, function in _public_functions() if "<locals>" not in name}


def test_there_are_functions_to_look_at() -> None:
    assert len(FUNCTIONS) > 150


def test_every_public_function_is_documented() -> None:
    plain = {name for name, function in FUNCTIONS.items() if not inspect.getdoc(function)}
    assert {name for name in plain if not name.endswith(".__init__")} == set()


def test_every_public_function_is_typed() -> None:
    untyped = []
    for name, function in FUNCTIONS.items():
        parameters = [
            one for one in inspect.signature(function).parameters if one not in ("self", "cls")
        ]
        missing = {*parameters, "return"} - function.__annotations__.keys()
        untyped += [f"{name}: {one}" for one in sorted(missing)]
    assert untyped == []


def test_every_type_of_the_kinds_tells_what_its_fields_are() -> None:
    from manta.sdk.types import structs

    found = list(structs())
    assert len(found) > 40
    for struct in found:
        lines = (struct.__doc__ or "").splitlines()
        assert [line.partition(":")[0] for line in lines[2:]] == list(struct.__struct_fields__)
        assert all(line.partition(": ")[2] for line in lines[2:])
    assert issubclass(manta.RayCluster, msgspec.Struct)
    assert "replicas: Desired replicas." in (manta.WorkerGroupSpec.__doc__ or "")


def test_the_options_of_every_call_are_described() -> None:
    """Editors show the text below a key."""
    tree = ast.parse((ROOT / "src/manta/sdk/options.py").read_text())
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for one, after in zip(cls.body, [*cls.body[1:], None], strict=True):
            if isinstance(one, ast.AnnAssign):
                assert isinstance(after, ast.Expr), f"{cls.name}.{ast.unparse(one)}"
    assert get_type_hints(manta.ClusterOptions)["suspend"] is bool


# ── doctests ─────────────────────────────────────────────────────────────────────────────

WITH_EXAMPLES = (
    "manta.client.cluster_spec",
    "manta.sdk.builders",
    "manta.sdk.html",
    "manta.sdk.types",
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted
    assert not result.failed


def test_every_module_with_examples_is_run() -> None:
    found = {
        module.__name__ for module in MODULES if ">>> " in Path(str(module.__file__)).read_text()
    }
    assert found <= set(WITH_EXAMPLES)
