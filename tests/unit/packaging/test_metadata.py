"""What the wheel and the release say of themselves (P10)."""

from __future__ import annotations

import re
import tomllib

import yaml
from hatch_build import project_urls, standalone

from manta import __version__
from manta.cli.plane.examples import example
from support.dockerfile import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKE_TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
URL = "https://example.org/manta"


def test_the_version_is_written_once_and_the_chart_follows() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/manta/__init__.py"
    chart = yaml.safe_load((ROOT / "charts/manta/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    charts = [yaml.safe_load(one.read_text()) for one in (ROOT / "charts").glob("*/Chart.yaml")]
    assert {one["version"] for one in charts} == {__version__}


def test_the_readme_of_the_package_has_no_relative_link() -> None:
    readme = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", standalone(readme, URL))
    assert links
    assert all(link.startswith(("https://", "#")) for link in links)
    assert f"]({URL}/blob/main/docs/guide/install.md)" in standalone(readme, URL)
    assert not re.search(r"\]\((?!https?://|#)", standalone(readme, ""))


def test_the_package_names_where_it_is_published() -> None:
    assert project_urls(URL)["Issues"] == f"{URL}/issues"


def test_the_quickstart_is_in_the_package() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"] == {
        "examples": "manta/examples"
    }
    assert "kind: RayCluster" in example("quickstart.yaml").read_text()


def test_every_supported_python_is_tested_and_named() -> None:
    minor = re.compile(r"3\.\d+$")
    named = {found[0] for one in PROJECT["project"]["classifiers"] if (found := minor.search(one))}
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert set(matrix["python"]) == named
    assert set(matrix["suite"]) <= MAKE_TARGETS
    assert PROJECT["project"]["requires-python"] == f">={min(named, key=lambda one: int(one[2:]))}"


def test_every_action_of_every_workflow_is_named_by_a_commit() -> None:
    """A tag can be moved by whoever takes over its repository."""
    used = [one for path in WORKFLOWS for one in re.findall(r"uses: (.*)", path.read_text())]
    assert used
    for one in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", one), one


def test_everything_that_says_how_to_install_an_extra_names_this_package() -> None:
    """`manta` itself is somebody else's package."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/manta/**/*.py")]
    extras = re.compile(r"pip install '([\w-]+)\[")
    named = {name for page in pages for name in extras.findall(page.read_text())}
    assert named == {PROJECT["project"]["name"]}
