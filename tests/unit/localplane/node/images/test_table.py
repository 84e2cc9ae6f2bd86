from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import manta.localplane.node.images
from manta.localplane.node.images.table import (
    Recipe,
    TableError,
    find_recipe,
    is_reference,
    python_version,
    read_rules,
)

PACKAGED = Path(manta.localplane.node.images.__file__).with_name("images.yaml")


def recipe(image: str) -> Recipe | None:
    return find_recipe(read_rules(yaml.safe_load(PACKAGED.read_text()), "packaged"), image)


@pytest.mark.parametrize(
    ("image", "package", "python"),
    [
        ("rayproject/ray:2.54.0", "ray[default,serve]==2.54.0", ""),
        ("rayproject/ray:2.54.0-py311", "ray[default,serve]==2.54.0", "3.11"),
        ("docker.io/rayproject/ray:2.9.3-py39-cpu", "ray[default,serve]==2.9.3", "3.9"),
        ("rayproject/ray-ml:2.46.0-py310-gpu", "ray[default,serve]==2.46.0", "3.10"),
        ("rayproject/ray:2.60.0-gpu", "ray[default,serve]==2.60.0", ""),
        ("rayproject/ray:2.60.0-py312-cu128", "ray[default,serve]==2.60.0", "3.12"),
        ("rayproject/ray:2.60.0-cu124-aarch64", "ray[default,serve]==2.60.0", ""),
        ("rayproject/ray:latest-gpu", "ray[default,serve]", ""),
        ("rayproject/ray:2.46.0-aarch64", "ray[default,serve]==2.46.0", ""),
        ("rayproject/ray:2.46.0.0e19ea-py312", "ray[default,serve]==2.46.0", "3.12"),
        ("rayproject/ray:2.46.0@sha256:abc", "ray[default,serve]==2.46.0", ""),
        ("rayproject/ray:nightly-py312-cpu", "ray[default,serve]", "3.12"),
        ("rayproject/ray:latest", "ray[default,serve]", ""),
        ("rayproject/ray", "ray[default,serve]", ""),
    ],
)
def test_a_ray_image_stands_for_that_ray_and_python(image: str, package: str, python: str) -> None:
    found = recipe(image)
    assert found is not None
    assert found.packages is not None
    assert found.packages[0] == package
    assert found.python == python
    assert found.workdir == "/home/ray"


@pytest.mark.parametrize(
    ("image", "command"),
    [
        ("busybox", ("sh",)),
        ("busybox:1.28", ("sh",)),
        ("docker.io/library/ubuntu:22.04", ("sh",)),
        ("redis:7.4", ("redis-server",)),
        ("python:3.12-slim", ("python3",)),
    ],
)
def test_common_images_stand_for_programs_of_the_machine(image: str, command: Any) -> None:
    found = recipe(image)
    assert found is not None
    assert found.command == command


@pytest.mark.parametrize("image", ["mycompany/model-server:1", "array:1.2.3", "busyboxes"])
def test_an_image_that_nobody_mapped_has_no_recipe(image: str) -> None:
    assert recipe(image) is None


def test_a_rule_of_the_user_adds_packages_to_a_gpu_image() -> None:
    own = {"images": [{"image": r".*/ray:(?P<v>[\d.]+)-gpu", "packages": ["ray=={v}", "torch"]}]}
    packaged = read_rules(yaml.safe_load(PACKAGED.read_text()), "packaged")
    found = find_recipe((*read_rules(own, "own"), *packaged), "rayproject/ray:2.60.0-gpu")
    assert found is not None
    assert found.packages == ("ray==2.60.0", "torch")


def test_the_first_rule_that_matches_wins() -> None:
    rules = read_rules(
        {"images": [{"image": "a.*", "command": ["one"]}, {"image": "ab", "command": ["two"]}]}, "x"
    )
    found = find_recipe(rules, "ab")
    assert found is not None
    assert found.command == ("one",)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "expected a mapping with a list 'images'"),
        ({"images": [{}]}, r"images\[0\]: expected a mapping with 'image'"),
        ({"images": [{"image": "a", "packges": []}]}, "unknown field 'packges'"),
        ({"images": [{"image": "("}]}, "is not a regular expression"),
    ],
)
def test_a_wrong_table_is_explained(document: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        read_rules(document, "images.yaml")


@pytest.mark.parametrize(
    ("text", "version"), [("py311", "3.11"), ("39", "3.9"), ("3.12", "3.12"), ("", "")]
)
def test_python_versions_in_tags(text: str, version: str) -> None:
    assert python_version(text) == version


@pytest.mark.parametrize("image", ["", "a b", ":x", "a:", "ein/bild:täg"])
def test_what_is_no_image_name_at_all(image: str) -> None:
    assert not is_reference(image)


def test_the_table_of_the_guide_is_read() -> None:
    guide = (Path(__file__).parents[5] / "docs" / "guide" / "laptop.md").read_text()
    text = guide.partition("```yaml\n# ~/.manta/node/images.yaml")[2].partition("```")[0]
    rules = read_rules(yaml.safe_load(f"#{text}"), "laptop.md")
    trainer = find_recipe(rules, "registry.example.com/team/trainer:7")
    assert trainer is not None
    assert "torch" in (trainer.packages or ())
    tool = find_recipe(rules, "my-tool:1")
    assert tool is not None
    assert tool.environment == "/opt/my-tool"
