"""The same command lines given to KubeRay's own plugin, on one plane: equal objects, equal tables.

The binary is named by MANTA_KUBERAY_PLUGIN; without it these tests are skipped.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.install.operator_manifests import Installation, all_objects
from support.kubectl_ray import PEER, PlaneThread, Ran, plane_thread
from support.kubectl_ray_cases import (
    CREATE_CLUSTER,
    CREATE_GROUP,
    ERRORS,
    JOB_DRY_RUNS,
    SCALE,
    SHORT_YAML,
    TABLES,
    Case,
)

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not PEER, reason="MANTA_KUBERAY_PLUGIN does not name KubeRay's plugin"),
]
BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@pytest.fixture(scope="module")
def plane() -> Iterator[PlaneThread]:
    with (
        tempfile.TemporaryDirectory() as folder,
        plane_thread(Path(folder) / "plane") as plane,
    ):
        yield plane


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "short.yaml").write_text(SHORT_YAML)
    (tmp_path / "odd.yaml").write_text("cpus: 2\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    for name, mode, retries in (("k8sjob", "K8sJobMode", 0), ("retries", "InteractiveMode", 2)):
        job = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "filed"},
            "spec": {
                "submissionMode": mode,
                "backoffLimit": retries,
                "rayClusterSpec": {
                    "headGroupSpec": {
                        "template": {"spec": {"containers": [{"name": "ray", "image": "i"}]}}
                    }
                },
            },
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(job))
    return tmp_path


def line(words: Any, files: Path, namespace: str) -> list[str]:
    filled = [word.replace("{dir}", str(files)) for word in words]
    split = filled.index("--") if "--" in filled else len(filled)
    return [*filled[:split], "-n", namespace, *filled[split:]]


def both(plane: PlaneThread, words: Any, files: Path, name: str) -> tuple[Ran, Ran, str, str]:
    """The line in two namespaces with the same objects."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    ours, theirs = plane.namespace(f"o-{label}"[:60]), plane.namespace(f"t-{label}"[:60])
    return (
        plane.ours(*line(words, files, ours)),
        plane.theirs(*line(words, files, theirs)),
        ours,
        theirs,
    )


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Without what the server sets, the namespace, and empty fields, which mean the same."""
    meta = {
        name: value
        for name, value in document["metadata"].items()
        if name not in (*BY_SERVER, "namespace")
    }
    bare: dict[str, Any] = _without_empty({"metadata": meta, "spec": document["spec"]})
    return bare


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, {}, [], "")}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def without_ages(text: str, namespace: str) -> list[list[str]]:
    """The cells of a table; ages differ by what the second command took."""
    rows = [re.split(r" {2,}", row.rstrip()) for row in text.splitlines()]
    plain = [[cell.replace(namespace, "NS") for cell in row] for row in rows]
    return [[re.sub(r"^\d+m?\d*s$", "AGE", cell) for cell in row] for row in plain]


@pytest.mark.parametrize("case", [*CREATE_CLUSTER, *CREATE_GROUP, *SCALE], ids=lambda one: one.name)
def test_the_objects_are_equal(plane: PlaneThread, files: Path, case: Case) -> None:
    mine, other, ours, theirs = both(plane, case.words, files, case.name)
    assert (mine.code, other.code) == (0, 0), other.err
    found = [comparable(plane.get(case.resource, one, case.of)) for one in (ours, theirs)]
    assert (found[0] == found[1]) is not bool(case.differs), found
    assert mine.out.replace(ours, "NS") == other.out.replace(theirs, "NS")


@pytest.mark.parametrize("case", [*CREATE_CLUSTER, *JOB_DRY_RUNS], ids=lambda one: one.name)
def test_dry_runs_print_equal_yaml(plane: PlaneThread, files: Path, case: Case) -> None:
    words = case.words if "--dry-run" in case.words else (*case.words, "--dry-run")
    mine, other, *_ = both(plane, words, files, f"dry {case.name}")
    assert (mine.code, other.code) == (0, 0), other.err
    text = "\n".join(row for row in other.out.splitlines() if not row.startswith("Generated"))
    printed = [comparable(yaml.safe_load(one)) for one in (mine.out, text)]
    if "--submission-id" not in words:
        for one in printed:
            one["spec"].pop("jobId", None)
    assert (printed[0] == printed[1]) is not bool(case.differs), printed


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_the_tables_are_equal(plane: PlaneThread, files: Path, words: Any) -> None:
    mine, other, ours, theirs = both(plane, words, files, "tables")
    assert (mine.code, other.code) == (0, 0), other.err
    assert without_ages(mine.out, ours) == without_ages(other.out, theirs)


@pytest.mark.parametrize("what", ["cluster", "workergroup", "node"])
def test_tables_of_all_namespaces_are_equal(plane: PlaneThread, what: str) -> None:
    plane.namespace("o-tables")
    mine, other = plane.ours("get", what, "-A"), plane.theirs("get", what, "-A")
    assert without_ages(mine.out, "\0") == without_ages(other.out, "\0")


@pytest.mark.parametrize(("words", "text"), ERRORS, ids=[" ".join(one[0]) for one in ERRORS])
def test_both_refuse(plane: PlaneThread, files: Path, words: Any, text: str) -> None:
    mine, other, ours, theirs = both(plane, words, files, "errors")
    assert (mine.code != 0, other.code != 0) == (True, True)
    assert re.search(text, mine.err), mine.err
    assert re.search(text, other.err + other.out), other.err
    for namespace in (ours, theirs):
        assert not plane.exists(RAY_CLUSTERS, namespace, "x")
        assert not plane.exists(RAY_JOBS, namespace, "x")


def test_both_delete(plane: PlaneThread, files: Path) -> None:
    words = ("delete", "demo", "rayjob/train", "rayservice/web", "-y")
    mine, other, ours, theirs = both(plane, words, files, "delete")
    assert (mine.code, other.code) == (0, 0)
    assert sorted(mine.out.splitlines()) == sorted(other.out.splitlines())
    for namespace in (ours, theirs):
        assert not plane.exists(RAY_CLUSTERS, namespace, "demo")


def test_both_find_our_operator(plane: PlaneThread) -> None:
    """The Deployment of `manta install`, which is that of the chart."""
    from manta.api.resources import DEPLOYMENTS, NAMESPACES

    installation = Installation()
    [deployment] = [one for one in all_objects(installation) if one["kind"] == "Deployment"]
    namespace = {"metadata": {"name": installation.namespace}}
    plane.wait(plane.plane.client.create(NAMESPACES, "", namespace))
    plane.wait(plane.plane.client.create(DEPLOYMENTS, installation.namespace, deployment))
    version = f"KubeRay operator version: {installation.image.rpartition(':')[2]}"
    assert version in plane.ours("version").out
    assert version in plane.theirs("version").out
