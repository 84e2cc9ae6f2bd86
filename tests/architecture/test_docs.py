"""The pages that are written from the code are up to date."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tools.docs import words
from tools.docs.generate import OUTPUT, PAGES
from tools.docs.site import places

from manta.api.ray import names
from manta.operator.option_table import VARIABLES, VARIABLES_WITHOUT_EFFECT
from manta.operator.options import add_flags, options_from

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_tells_what_the_code_says(page: str) -> None:
    assert (OUTPUT / page).read_text() == PAGES[page](), "run `make docs` and commit the pages"


def test_the_links_of_the_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_page_is_on_the_documentation_site() -> None:
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([*map(str, places().values()), "reference/python.md"])


# ── every name has its meaning, and none is there that the code does not know ────────────


def _constants(prefix: str) -> set[str]:
    return {value for name, value in vars(names).items() if name.startswith(prefix)}


def _written_in_code() -> set[str]:
    """Names of ours that stand in the code as they are."""
    text = "".join(path.read_text() for path in (ROOT / "src/manta").rglob("*.py"))
    return set(re.findall(r'"(manta\.ray\.io/[a-z-]+)"', text))


def test_every_annotation_and_finalizer_is_explained() -> None:
    ours = {one for one in _constants("ANNOTATION_") if "ray.io/" in one} | _written_in_code()
    assert {*words.SET_BY_USERS, *words.WRITTEN_BY_US, *words.SCHEDULING_GATES} == ours
    assert set(words.FINALIZERS) == {one for one in _constants("FINALIZER_") if "ray.io/" in one}


class Recorded(Mapping[str, str]):
    """An empty environment that notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_every_variable_that_the_operator_reads_is_explained() -> None:
    environment, parser = Recorded(), argparse.ArgumentParser()
    add_flags(parser)
    options_from(parser.parse_args([]), environment)
    explained = {*(one.name for one in VARIABLES), *VARIABLES_WITHOUT_EFFECT}
    assert explained == environment.asked


def test_every_variable_of_rays_containers_is_explained() -> None:
    assert set(words.RAY_ENVIRONMENT) == _constants("ENV_")
