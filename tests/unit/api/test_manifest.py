"""The Ray kinds to and from YAML: nothing is lost, and nothing misspelt is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from manta.api.documents.reader import read_documents
from manta.api.ray.cluster import RayCluster
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import RayJob
from manta.api.ray.manifest import Manifest
from manta.api.ray.service import RayService
from manta.api.usage import InvalidValue

EXAMPLES = Path(__file__).parents[3] / "examples"
KINDS: dict[str, type[Manifest]] = {
    kind.__name__: kind for kind in (RayCluster, RayJob, RayService, RayCronJob)
}
QUICKSTART = (EXAMPLES / "quickstart.yaml").read_text()
CRON = (EXAMPLES / "raycronjob.yaml").read_text()
SERVER = """
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: demo
  uid: abc
  resourceVersion: "7"
  generation: 2
  creationTimestamp: "2026-01-01T00:00:00Z"
  managedFields: [{manager: kubectl}]
  labels: {team: a}
spec: {entrypoint: python x.py, suspend: true}
status: {jobStatus: RUNNING, unknownToUs: 1}
"""


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_read_and_written_again(path: Path) -> None:
    for document in read_documents(path.read_text()):
        kind = KINDS.get(document["kind"])
        if kind is None:
            continue
        manifest = kind.from_dict(document)
        assert kind.from_yaml(manifest.to_yaml()) == manifest
        assert manifest.to_dict()["kind"] == document["kind"]


def test_what_the_server_sets_is_read_but_not_written() -> None:
    job = RayJob.from_yaml(SERVER)
    assert job.status.job_status == "RUNNING"
    assert job.metadata.uid == "abc"
    assert job.to_dict() == {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "demo", "labels": {"team": "a"}},
        "spec": {"entrypoint": "python x.py", "suspend": True},
    }


def test_nulls_of_go_programs_are_taken() -> None:
    text = QUICKSTART.replace("  name: quickstart", "  name: quickstart\n  creationTimestamp: null")
    assert RayCluster.from_yaml(text) == RayCluster.from_yaml(QUICKSTART)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            QUICKSTART.replace("groupName", "groupname"),
            RayCluster,
            r"spec\.workerGroupSpecs\[0\]\.groupname='workers': .*did you mean 'groupName'",
        ),
        (
            QUICKSTART.replace("replicas: 1", "replicas: one"),
            RayCluster,
            r"spec\.workerGroupSpecs\[0\]\.replicas='one': Expected `int",
        ),
        (
            CRON.replace("entrypoint", "entripoint"),
            RayCronJob,
            r"spec\.jobTemplate\.entripoint=.*did you mean 'entrypoint'",
        ),
        (QUICKSTART, RayJob, "kind='RayCluster': must be RayJob"),
        (
            "apiVersion: ray.io/v2\nkind: RayJob",
            RayJob,
            "apiVersion='ray.io/v2': must be ray.io/v1",
        ),
        ("a: [", RayJob, "not valid YAML"),
        ("[]", RayJob, "must be a mapping"),
        ("metadata: 3", RayJob, "metadata=3: Expected `object`"),
        ("metadata: {generateName: a-}", RayJob, "metadata.generateName='a-': RayJob has no such"),
    ],
)
def test_a_wrong_manifest_names_field_and_value(
    text: str, kind: type[Manifest], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message) as refused:
        kind.from_yaml(text)
    assert refused.value.field


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(str(InvalidValue("field", "x" * 10_000, "is too long"))) < 150
