"""The tree says what ARCHITECTURE.md says."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from manta.cli.main import VERBS
from support.source_files import text_of, tree_of

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src/manta").rglob("*.py"))
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
[LAYERS] = [contract["layers"] for contract in CONTRACTS if contract["name"] == "Layers"]


def test_every_import_contract_is_on_the_page_and_the_other_way_round() -> None:
    reported = re.findall(r"^\d+\. \*\*(.+?)\*\*", PAGE, flags=re.MULTILINE)
    assert reported == [contract["name"] for contract in CONTRACTS]


def test_the_table_of_layers_is_the_contract_of_layers() -> None:
    rows = re.findall(r"^\| \d+ \| (.+?) \|", PAGE, flags=re.MULTILINE)
    reported = [{name.strip("`") for name in row.split(", ")} for row in rows]
    kept = [{name.strip().removeprefix("manta.") for name in row.split("|")} for row in LAYERS]
    assert reported == kept[::-1]


def test_every_package_stands_in_a_layer() -> None:
    known = {name.strip().removeprefix("manta.") for row in LAYERS for name in row.split("|")}
    packages = {path.parent.name for path in (ROOT / "src/manta").glob("*/__init__.py")}
    assert packages == known


def test_no_package_or_module_has_a_meaningless_name() -> None:
    empty_names = {"utils", "util", "common", "helpers", "helper", "misc"}
    found = [path for path in (ROOT / "src").rglob("*") if path.stem in empty_names]
    kuberay = ROOT / "src/manta/compat/kuberay/utils"  # the name is KubeRay's
    assert [path for path in found if path != kuberay] == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if (text := text_of(path).strip()) and not text.startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_only_the_document_reader_knows_the_yaml_library() -> None:
    """PyYAML reads scalars by other rules than Kubernetes, and its loaders recurse."""
    users = {
        str(path.relative_to(ROOT / "src/manta"))
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"^\s*(?:import|from) yaml\b", text_of(path), flags=re.MULTILINE)
    }
    assert users == {"api/documents/reader.py"}


def _imports_of_private_names(path: Path, package: str) -> Iterator[str]:
    """Imports of `_name` from a module of a package of ours that is not `package`."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("manta."):
            continue
        other = (node.module or "").split(".")[1]
        private = [one.name for one in node.names if re.match(r"_[^_]", one.name)]
        if private and other != package:
            yield f"{path.relative_to(ROOT)}: {node.module}: {', '.join(private)}"


def test_no_package_imports_a_private_name_of_another() -> None:
    files = [
        *((path, path.relative_to(ROOT / "src/manta").parts[0]) for path in SOURCES),
        *((path, "") for place in ("tools", "benchmarks") for path in (ROOT / place).rglob("*.py")),
    ]
    assert [
        one for path, package in files for one in _imports_of_private_names(path, package)
    ] == []


def test_the_cli_has_one_file_per_verb() -> None:
    files = {path.stem for path in (ROOT / "src/manta/cli").glob("*.py")}
    assert files == {"__init__", "main", *VERBS}


def test_every_listener_uses_the_one_http_server() -> None:
    """One parser, one set of limits: no second HTTP server beside `httpserver`."""
    users = {
        str(path.relative_to(ROOT / "src/manta"))
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"HttpRequestParser|http\.server|aiohttp\.web", text_of(path))
    }
    assert users == {"httpserver/parser.py"}


def test_no_name_of_kuberay_is_defined_and_never_used() -> None:
    """A constant that nobody uses misleads whoever looks for where a thing is set."""
    path = ROOT / "src/manta/api/ray/names.py"
    defined = re.findall(r"^([A-Z][A-Z0-9_]+)\b[^=\n]*=", text_of(path), re.MULTILINE)
    files = [one for place in ("src", "tests", "tools") for one in (ROOT / place).rglob("*.py")]
    used = Counter(word for one in files for word in re.findall(r"\w+", text_of(one)))
    assert defined
    unused = [name for name in defined if used[name] < 2]
    assert [
        name for name in unused if not name.startswith("ENV_")
    ] == []  # listed by docs/reference
