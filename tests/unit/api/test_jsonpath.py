"""The paths of printer columns and of `-o jsonpath`."""

from __future__ import annotations

import pytest

from manta.api.jsonpath import BadPathError, compile_path, values

OBJECT = {
    "spec": {"replicas": 3, "items": [{"n": 1}, {"n": 2}], "a/b": "slash", "x.y": "dot"},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Other", "status": "False"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [3]),
        ("spec.replicas", [3]),
        ("..n", [1, 2]),
        (".status.conditions[?(@.missing!='x')].status", []),
        (".spec.missing.deep", []),
        (".spec.items[0].n", [1]),
        (".spec.items[-1].n", [2]),
        (".spec.items[9].n", []),
        (".spec.items[*].n", [1, 2]),
        (".spec['a/b']", ["slash"]),
        (".spec.x\\.y", ["dot"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        ('.status.conditions[?(@.type=="None")].status', []),
    ],
)
def test_paths_find_values(path: str, found: list[object]) -> None:
    assert list(values(compile_path(path), OBJECT)) == found


@pytest.mark.parametrize("path", [".spec[", ".spec[?(x)]", ".spec[a]", ".a b"])
def test_paths_that_cannot_be_read_are_refused(path: str) -> None:
    with pytest.raises(BadPathError):
        compile_path(path)
