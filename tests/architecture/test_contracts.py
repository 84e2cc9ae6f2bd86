"""The tree says what ARCHITECTURE.md says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]


def test_every_import_contract_is_on_the_page_and_the_other_way_round() -> None:
    told = re.findall(r"^\d+\. \*\*(.+?)\*\*", PAGE, flags=re.MULTILINE)
    assert told == [contract["name"] for contract in CONTRACTS]


def test_the_table_of_layers_is_the_contract_of_layers() -> None:
    rows = re.findall(r"^\| \d \| (.+?) \|", PAGE, flags=re.MULTILINE)
    told = [{name.strip("`") for name in row.split(", ")} for row in rows]
    [layers] = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    kept = [{name.strip().removeprefix("manta.") for name in row.split("|")} for row in layers]
    assert told == kept[::-1]


def test_every_package_stands_in_a_layer() -> None:
    [layers] = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    known = {name.strip().removeprefix("manta.") for row in layers for name in row.split("|")}
    packages = {path.parent.name for path in (ROOT / "src/manta").glob("*/__init__.py")}
    assert packages == known


def test_no_room_is_called_by_a_name_that_says_nothing() -> None:
    empty_names = {"utils", "util", "common", "helpers", "helper", "misc"}
    found = [path for path in (ROOT / "src").rglob("*") if path.stem in empty_names]
    assert found == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if (text := path.read_text().strip()) and not text.startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_only_the_document_reader_knows_the_yaml_library() -> None:
    """P5: PyYAML reads scalars by other rules than Kubernetes, and its loaders recurse (X1)."""
    users = {
        str(path.relative_to(ROOT / "src/manta"))
        for path in (ROOT / "src").rglob("*.py")
        if re.search(r"^\s*(?:import|from) yaml\b", path.read_text(), flags=re.MULTILINE)
    }
    assert users == {"api/documents/reader.py"}


def test_no_name_of_kuberay_is_defined_and_never_used() -> None:
    """P12: a constant that nobody uses misleads whoever looks for where a thing is set."""
    path = ROOT / "src/manta/api/ray/names.py"
    defined = re.findall(r"^([A-Z][A-Z0-9_]+)\b[^=\n]*=", path.read_text(), re.MULTILINE)
    files = [one for place in ("src", "tests", "tools") for one in (ROOT / place).rglob("*.py")]
    text = "\n".join(one.read_text() for one in files)
    assert defined
    unused = [name for name in defined if len(re.findall(rf"\b{name}\b", text)) < 2]
    assert [
        name for name in unused if not name.startswith("ENV_")
    ] == []  # listed by docs/reference
