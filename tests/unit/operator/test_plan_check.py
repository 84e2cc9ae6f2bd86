"""`manta plan` says what the server and the operator would say (U6), here without any server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.cli.main import main

NEGATIVE = {"limits": {"cpu": "-1"}}


def template(**container: Any) -> dict[str, Any]:
    ray = {"name": "ray", "image": "rayproject/ray:2.60.0", **container}
    return {"spec": {"containers": [{key: value for key, value in ray.items() if value}]}}


def cluster_spec(worker: dict[str, Any] | None = None, **group: Any) -> dict[str, Any]:
    workers = {"groupName": "w", "replicas": 1, "minReplicas": 0, "maxReplicas": 3, **group}
    return {
        "rayVersion": "2.60.0",
        "headGroupSpec": {"rayStartParams": {}, "template": template()},
        "workerGroupSpecs": [{**workers, "template": worker or template()}],
    }


class Planner:
    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = file
        self.capsys = capsys

    def plan(self, kind: str, spec: dict[str, Any], *flags: str, **top: Any) -> tuple[int, str]:
        document = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "x"}}
        self.file.write_text(yaml.safe_dump({**document, "spec": spec, **top}))
        code = main(["plan", "--offline", "-f", str(self.file), *flags])
        return code, self.capsys.readouterr().out


@pytest.fixture
def planner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planner:
    return Planner(tmp_path / "x.yaml", capsys)


def test_a_good_manifest_is_planned_without_a_server(planner: Planner) -> None:
    code, said = planner.plan("RayCluster", cluster_spec())
    assert code == 0
    assert said.splitlines()[0] == "RayCluster default/x: it is new, and everything is created"
    assert "invalid" not in said


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (cluster_spec(replicasss=2), 'unknown field "spec.workerGroupSpecs[0].replicasss"'),
        (cluster_spec(template(image=None)), "spec.containers[0].image: Required value"),
        (cluster_spec(template(name="Ray_Worker")), "spec.containers[0].name: Invalid value"),
        (
            cluster_spec(template(resources=NEGATIVE)),
            "spec.workerGroupSpecs[0].template.spec.containers[0].resources.limits[cpu]",
        ),
        (cluster_spec(minReplicas=5), "spec.workerGroupSpecs[0].minReplicas: 5"),
    ],
    ids=["typo", "no image", "container name", "negative", "rule"],
)
def test_what_is_wrong_is_said_and_ends_with_2(
    planner: Planner, spec: dict[str, Any], words: str
) -> None:
    code, said = planner.plan("RayCluster", spec)
    assert code == 2
    assert words in said
    assert said.splitlines()[0].startswith("RayCluster default/x: it is invalid")


def test_the_pods_of_a_job_and_of_a_service_are_looked_at_too(planner: Planner) -> None:
    bad = cluster_spec(template(image=None))
    job = {"entrypoint": "python x.py", "rayClusterSpec": bad}
    for kind, spec in (
        ("RayJob", job),
        ("RayService", {"rayClusterConfig": bad, "serveConfigV2": "applications: []"}),
        ("RayCronJob", {"schedule": "@daily", "jobTemplate": job}),
    ):
        code, said = planner.plan(kind, spec)
        assert (kind, code) == (kind, 2), said
        assert "spec.containers[0].image: Required value" in said


def test_replicas_outside_their_bounds_are_noted(planner: Planner) -> None:
    code, said = planner.plan("RayCluster", cluster_spec(replicas=9))
    assert code == 0
    assert "replicas: 9 is not between minReplicas 0 and maxReplicas 3: group w gets 3" in said


def test_a_suspended_object_is_not_said_to_be_made(planner: Planner) -> None:
    _, said = planner.plan("RayCluster", {**cluster_spec(), "suspend": True})
    assert "it is suspended: no Pods are created" in said
    job = {"entrypoint": "x", "suspend": True, "shutdownAfterJobFinishes": True}
    _, said = planner.plan("RayJob", {**job, "rayClusterSpec": cluster_spec()})
    assert "it is suspended: nothing is created" in said


def test_a_cron_job_has_a_plan(planner: Planner) -> None:
    job = {"entrypoint": "x", "rayClusterSpec": cluster_spec()}
    code, said = planner.plan("RayCronJob", {"schedule": "0 3 * * *", "jobTemplate": job})
    assert code == 0, said
    assert "nothing changes before the next scheduled time" in said
    assert "note: the next RayJob is created at" in said
    code, said = planner.plan("RayCronJob", {"schedule": "0 3 * *", "jobTemplate": job})
    assert code == 2
    assert "spec.schedule" in said
    suspended = {"schedule": "@daily", "suspend": True, "jobTemplate": job}
    assert "it is suspended: no RayJob is created" in planner.plan("RayCronJob", suspended)[1]


def test_programs_get_the_same_as_json(planner: Planner) -> None:
    code, said = planner.plan("RayCluster", cluster_spec(replicas=9), "-o", "json")
    [item] = json.loads(said)["items"]
    assert code == 0
    assert (item["kind"], item["name"], item["valid"]) == ("RayCluster", "x", True)
    assert item["actions"][0] == {
        "stage": 1,
        "verb": "create",
        "kind": "Service",
        "namespace": "default",
        "name": "x-head-svc",
        "why": "head service",
    }
    assert len(item["notes"]) == 1
    code, said = planner.plan("RayCluster", cluster_spec(replicasss=1), "-o", "json")
    [item] = json.loads(said)["items"]
    assert (code, item["valid"]) == (2, False)


@pytest.mark.parametrize("more", [{}, {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}])
def test_a_new_cluster_with_rolling_updates_shows_its_pods(
    planner: Planner, more: dict[str, Any]
) -> None:
    spec = {**cluster_spec(replicas=2), "upgradeStrategy": {"type": "RollingUpdate"}, **more}
    code, said = planner.plan("RayCluster", spec)
    assert code == 0
    assert said.splitlines()[0] == "RayCluster default/x: it is new, and everything is created"
    assert [line.split(maxsplit=2)[2] for line in said.splitlines() if "  order " in line] == [
        "create the head",
        "create a worker of group w",
        "create a worker of group w",
    ]


def test_a_name_needs_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--offline", "demo"]) == 2
    assert "manta plan -f FILE" in capsys.readouterr().err


def test_the_help_shows_the_flags_of_plan_and_not_those_of_the_operator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """U17."""
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    shown = capsys.readouterr().out
    assert "--offline" in shown
    assert "--leader-election-namespace" not in shown
    assert "`manta operator --help`" in " ".join(shown.split())
