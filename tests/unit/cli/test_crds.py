"""`manta crds`."""

from __future__ import annotations

import argparse
import json

import pytest
import yaml

from manta.api.crds import CRD_NAMES, crd_documents
from manta.cli import crds


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    crds.add_parser(parser.add_subparsers())
    return crds.run(parser.parse_args(["crds", *words]))


def test_all_four_are_printed_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    text = capsys.readouterr().out
    assert text.count("\n---\n") == 3
    assert [text.count(f"\n  name: {name}\n") for name in CRD_NAMES] == [1, 1, 1, 1]


def test_the_yaml_says_what_the_json_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("raycronjobs") == 0
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    assert yaml.load(capsys.readouterr().out, loader) == crd_documents()[3]


def test_several_are_printed_as_a_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--format", "json", "RayJob", "rayclusters.ray.io") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["kind"] == "List"
    names = [one["metadata"]["name"] for one in printed["items"]]
    assert names == ["rayjobs.ray.io", "rayclusters.ray.io"]


def test_one_is_printed_as_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--format", "json", "rayservice") == 0
    assert json.loads(capsys.readouterr().out) == crd_documents()[2]


def test_an_unknown_name_ends_with_2_and_says_what_there_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("raypods") == 2
    assert "rayclusters.ray.io" in capsys.readouterr().err
