"""The shipped CRDs: generated from the types, and as KubeRay's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manta.api.crds import CRD_NAMES, crd_documents, crd_json

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def tools_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def schemas(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for version in document["spec"]["versions"]:
        yield from walk(version["name"], version["schema"]["openAPIV3Schema"])


def walk(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(f"{path}.{name}", inner)
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from walk(f"{path}[]", schema[word])


def test_the_shipped_files_are_what_the_types_say() -> None:
    from tools.crds.generate import stale

    assert stale() == [], "run python -m tools.crds.generate"


def test_there_are_four_and_each_is_named_by_its_plural_and_group() -> None:
    assert [one["metadata"]["name"] for one in crd_documents()] == list(CRD_NAMES)
    assert len(CRD_NAMES) == 4


def test_a_crd_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="rayclusters"):
        crd_json("raypods.ray.io")


@pytest.mark.parametrize("document", crd_documents(), ids=CRD_NAMES)
def test_v1_is_stored_and_v1alpha1_is_served_with_a_warning(document: dict[str, Any]) -> None:
    first, *rest = document["spec"]["versions"]
    assert (first["name"], first["served"], first["storage"]) == ("v1", True, True)
    if document["spec"]["names"]["kind"] == "RayCronJob":
        assert rest == []
    else:
        [alpha] = rest
        assert (alpha["name"], alpha["served"], alpha["storage"]) == ("v1alpha1", True, False)
        assert alpha["deprecated"]
        assert "deprecated; use ray.io/v1" in alpha["deprecationWarning"]


@pytest.mark.parametrize("document", crd_documents(), ids=CRD_NAMES)
def test_schemas_are_structural(document: dict[str, Any]) -> None:
    for path, schema in schemas(document):
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        assert not {"$ref", "allOf", "oneOf"} & schema.keys(), path


@pytest.mark.parametrize("document", crd_documents(), ids=CRD_NAMES)
def test_keys_of_list_maps_are_always_there(document: dict[str, Any]) -> None:
    for path, schema in schemas(document):
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            items = schema["items"]
            assert key in items.get("required", ()) or "default" in items["properties"][key], path


def a_definition(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_the_comparison_tells_missing_added_and_different_paths() -> None:
    from tools.crds.compare import compare, facts

    text = {"type": "string"}
    theirs = {
        "type": "object",
        "properties": {
            "gone": text,
            "same": text,
            "list": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
    }
    ours = {
        "type": "object",
        "properties": {
            "new": text,
            "same": text,
            "list": {"type": "array", "items": {"type": "integer", "minimum": 2}},
        },
    }
    result = compare(facts([a_definition(theirs)]), facts([a_definition(ours)]))
    assert result.missing == ("things.example.com/v1:.gone",)
    assert result.added == ("things.example.com/v1:.new",)
    [(path, reference, own)] = result.differing
    assert path == "things.example.com/v1:.list[]"
    assert (reference["minimum"], own["minimum"]) == (1, 2)


def test_the_comparison_fails_only_when_a_path_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    from tools.crds.compare import main

    less, more = tmp_path / "less.json", tmp_path / "more.json"
    less.write_text(json.dumps(a_definition({"type": "object"})))
    more.write_text(
        json.dumps(a_definition({"type": "object", "properties": {"x": {"type": "string"}}}))
    )
    assert main([str(less), str(more)]) == 0
    assert main([str(more), str(less)]) == 1
    assert "missing  things.example.com/v1:.x" in capsys.readouterr().out
    assert "tools.crds.compare" in sys.modules
