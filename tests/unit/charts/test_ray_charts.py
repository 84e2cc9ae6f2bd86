"""The charts ray-cluster, ray-service and ray-job: linted, rendered, and judged by the operator's own rules.

`make golden` writes the golden files again; the diff is the review.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tools.chart.generate import CHARTS, RAY_CHARTS

from manta.api.ray.cluster import RayCluster
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import RayJob
from manta.api.ray.naming import (
    MAX_RAY_CLUSTER_NAME,
    MAX_RAY_CRON_JOB_NAME,
    MAX_RAY_JOB_NAME,
    MAX_RAY_SERVICE_NAME,
)
from manta.api.ray.service import RayService
from manta.rules.settings import FeatureGates, Settings
from manta.rules.validation.cluster import cluster_violations
from manta.rules.validation.cronjob import cronjob_violations
from manta.rules.validation.job import validate_job
from manta.rules.validation.service import service_violations
from support.helm import KUBERNETES, ROOT, helm, rendered

GOLDEN = ROOT / "tests/golden"
SETS = [
    (chart, file.name.removesuffix(".values.yaml"))
    for chart in RAY_CHARTS
    for file in sorted((GOLDEN / chart).glob("*.values.yaml"))
]
EVERY_GATE = Settings(
    gates=FeatureGates(**dict.fromkeys(FeatureGates.__dataclass_fields__, True)),
    cert_manager=True,
)
Json = dict[str, Any]


def of(chart: str, *options: str | Path) -> Json:
    """The one object of a release called `mine`."""
    [found] = rendered(*options, chart=CHARTS / chart, release="mine", namespace="ray")
    return found


def refused(chart: str, *options: str) -> str:
    version = ("--kube-version", KUBERNETES)
    done = helm("template", "mine", CHARTS / chart, *version, *options, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


def cluster_of(document: Json) -> Json:
    spec = document["spec"]
    job = spec.get("jobTemplate") or spec
    found: Json = job.get("rayClusterSpec") or job.get("rayClusterConfig") or spec
    return found


# ── what is rendered ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("chart", "values"), SETS)
def test_golden_rendering_and_strict_lint(chart: str, values: str) -> None:
    options = ("-f", GOLDEN / chart / f"{values}.values.yaml")
    helm("lint", "--strict", CHARTS / chart, *options)
    made = yaml.safe_dump(of(chart, *options), width=120)
    file = GOLDEN / chart / f"{values}.yaml"
    if os.environ.get("MANTA_GOLDEN"):
        file.write_text(made)
    assert file.read_text() == made


@pytest.mark.parametrize(("chart", "values"), SETS)
def test_the_operator_finds_nothing_wrong_with_a_golden_rendering(chart: str, values: str) -> None:
    """Needs no Helm: the file is read."""
    document = yaml.safe_load((GOLDEN / chart / f"{values}.yaml").read_text())
    text = msgspec.json.encode(document)
    match document["kind"]:
        case "RayCluster":
            cluster = msgspec.json.decode(text, type=RayCluster)
            found = [*cluster_violations(cluster, EVERY_GATE)]
        case "RayService":
            service = msgspec.json.decode(text, type=RayService)
            found = [*service_violations(service, EVERY_GATE)]
        case "RayJob":
            found = [*validate_job(msgspec.json.decode(text, type=RayJob), EVERY_GATE)]
        case kind:
            assert kind == "RayCronJob"
            cron = msgspec.json.decode(text, type=RayCronJob)
            found = [*cronjob_violations(cron, EVERY_GATE)]
    assert found == []


def test_the_cluster_of_a_service_and_of_a_job_is_that_of_the_cluster_chart() -> None:
    """Recreate leaves the chart's version out of the Pod labels, as the other two always do."""
    values = (
        "--set",
        "worker.replicas=3,head.rayVersion=2.52.0",
        "--set",
        "authOptions.mode=token",
    )
    cluster = of("ray-cluster", *values, "--set", "upgradeStrategy.type=Recreate")["spec"]
    cluster.pop("upgradeStrategy")
    service = of("ray-service", *values, "--set", "serveConfigV2=applications: []")
    job = of("ray-job", *values, "--set", "entrypoint=main")
    cron = of("ray-job", *values, "--set", "entrypoint=main,schedule=@daily")
    assert [cluster_of(one) for one in (service, job, cron)] == [cluster] * 3


def test_pods_that_an_upgrade_would_replace_have_no_label_with_the_charts_version() -> None:
    def labels(document: Json) -> Json:
        template = cluster_of(document)["headGroupSpec"]["template"]
        return dict(template["metadata"]["labels"])

    service = of("ray-service", "--set", "serveConfigV2=applications: []")
    recreated = of("ray-cluster", "--set", "upgradeStrategy.type=Recreate")
    assert "helm.sh/chart" not in labels(service) | labels(recreated)
    assert "helm.sh/chart" in labels(of("ray-cluster"))


def test_a_number_of_ray_start_is_written_out() -> None:
    """KubeRay's chart prints 1e+08, which Ray cannot read."""
    options = ("--set", "head.rayStartParams.object-store-memory=100000000")
    head = of("ray-cluster", *options)["spec"]["headGroupSpec"]
    assert head["rayStartParams"] == {"object-store-memory": "100000000"}


def test_an_image_of_a_group_may_name_only_its_tag() -> None:
    spec = of("ray-cluster", "--set", "worker.image.tag=2.60.0-gpu")["spec"]
    templates = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    images = [one["template"]["spec"]["containers"][0]["image"] for one in templates]
    assert images == ["rayproject/ray:2.52.0", "rayproject/ray:2.60.0-gpu"]


def test_a_new_revision_of_a_job_that_reruns_has_a_new_name() -> None:
    options = ("--set", "entrypoint=main,rerunOnUpgrade=true")
    assert of("ray-job", *options)["metadata"]["name"] == "mine-ray-job-1"
    assert of("ray-job", *options, "--is-upgrade")["metadata"]["name"] == "mine-ray-job-1"
    assert of("ray-job", "--set", "entrypoint=main")["metadata"]["name"] == "mine-ray-job"


# ── what is refused ──────────────────────────────────────────────────────────────────────

SCHEMA = [
    ("ray-cluster", "workers.replicas=2", "additional properties 'workers' not allowed"),
    ("ray-cluster", "worker.nodeSelektor.a=b", "at '/worker': additional properties"),
    ("ray-cluster", "head.resources.limit.cpu=1", "at '/head/resources': additional properties"),
    ("ray-cluster", "worker.replicas=-1", "at '/worker/replicas': minimum: got -1, want 0"),
    ("ray-cluster", "authOptions.mode=tokens", "value must be one of 'disabled', 'token'"),
    ("ray-cluster", "tlsOptions.enable=true", "at '/tlsOptions': additional properties"),
    ("ray-cluster", "networkPolicy.mode=Deny", "at '/networkPolicy/mode': value must be one of"),
    ("ray-cluster", "upgradeStrategy.type=Rolling", "value must be one of 'Recreate', 'None'"),
    ("ray-cluster", "managedBy=me", "at '/managedBy': value must be one of"),
    ("ray-cluster", "image.tag=29", "at '/image/tag': got number, want string"),
    ("ray-cluster", "additionalWorkerGroups.a.groupName=b", "at '/additionalWorkerGroups/a'"),
    ("ray-service", "upgradeStrategy.type=Recreate", "value must be one of 'NewCluster'"),
    ("ray-service", "rayClusterDeletionDelaySeconds=-1", "minimum: got -1, want 0"),
    ("ray-job", "submissionMode=Http", "at '/submissionMode': value must be one of"),
    ("ray-job", "deletionStrategy.deletionRules[0].policy=Delete", "value must be one of"),
]
LONG = "a" * 54
CHECKS = [
    ("ray-cluster", f"fullnameOverride={LONG}", "has 54 characters, and a RayCluster at most 53"),
    (
        "ray-cluster",
        "gcsFaultTolerance.enabled=true",
        "gcsFaultTolerance.redisAddress: empty, but gcsFaultTolerance.enabled is true. Set",
    ),
    (
        "ray-cluster",
        "gcsFaultTolerance.enabled=true,gcsFaultTolerance.redisAddress=r,gcsFaultToleranceOptions.redisAddress=s",
        "Keep one of them",
    ),
    ("ray-cluster", "authOptions.secretName=mine", "authOptions.mode: missing"),
    ("ray-cluster", "worker.minReplicas=6", "worker.minReplicas: 6 is above maxReplicas, 5."),
    (
        "ray-cluster",
        "additionalWorkerGroups.a.minReplicas=2,additionalWorkerGroups.a.maxReplicas=1",
        "additionalWorkerGroups.a.minReplicas: 2 is above maxReplicas, 1.",
    ),
    ("ray-cluster", "worker.groupName=", "worker.groupName: empty. Set a name"),
    (
        "ray-cluster",
        "worker.groupName=a,additionalWorkerGroups.a.replicas=1",
        'worker.groupName: "a" is also a key of additionalWorkerGroups. Rename',
    ),
    ("ray-service", "suspend=false", "serveConfigV2: empty. Set the applications"),
    ("ray-job", "suspend=false", "entrypoint: empty. Set the command"),
    ("ray-job", "entrypoint=a,timeZone=UTC", "timeZone: UTC has no effect without schedule"),
    ("ray-job", "entrypoint=a,schedule=@daily,rerunOnUpgrade=true", "contradicts schedule"),
    ("ray-job", "entrypoint=a,clusterSelector.name=a", "has no key ray.io/cluster"),
]


@pytest.mark.parametrize(("chart", "value", "complaint"), [*SCHEMA, *CHECKS])
def test_a_value_that_cannot_be_meant_is_refused(chart: str, value: str, complaint: str) -> None:
    assert complaint in refused(chart, "--set", value)


@pytest.mark.parametrize(
    ("chart", "more", "kind", "longest"),
    [
        ("ray-cluster", "suspend=false", "RayCluster", MAX_RAY_CLUSTER_NAME),
        ("ray-service", "serveConfigV2=a", "RayService", MAX_RAY_SERVICE_NAME),
        ("ray-job", "entrypoint=a", "RayJob", MAX_RAY_JOB_NAME),
        ("ray-job", "entrypoint=a,schedule=@daily", "RayCronJob", MAX_RAY_CRON_JOB_NAME),
    ],
)
def test_a_name_is_as_long_as_the_operator_takes_it(
    chart: str, more: str, kind: str, longest: int
) -> None:
    def named(length: int) -> tuple[str, str]:
        return ("--set", f"{more},fullnameOverride={'a' * length}")

    assert of(chart, *named(longest))["kind"] == kind
    assert f"a {kind} at most {longest}" in refused(chart, *named(longest + 1))


# ── the charts themselves ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chart", RAY_CHARTS)
def test_every_value_is_explained(chart: str) -> None:
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())

    def silent(node: Json, path: str) -> list[str]:
        if node.get("description"):
            return []
        inner = node.get("properties") or {}
        found = [name for key, one in inner.items() for name in silent(one, f"{path}.{key}")]
        return found if inner else [path]

    assert silent(schema, "") == []


@pytest.mark.parametrize("chart", RAY_CHARTS)
def test_the_templates_are_shared(chart: str) -> None:
    shared = CHARTS / chart / "templates/shared"
    assert shared.resolve() == (CHARTS / "ray-cluster/templates/shared").resolve()


def test_a_packaged_chart_needs_no_other_one(tmp_path: Path) -> None:
    """`helm package` follows the link, so that the release has the shared templates in it."""
    helm("package", CHARTS / "ray-service", "-d", tmp_path)
    [package] = tmp_path.glob("*.tgz")
    [found] = rendered("--set", "serveConfigV2=a", chart=package, release="mine")
    assert found["kind"] == "RayService"
