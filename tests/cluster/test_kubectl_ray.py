"""`kubectl ray`: every flag of KubeRay's plugin and its effect, on the embedded plane."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from support.kubectl_ray import PlaneThread, add_operator, plane_thread
from support.kubectl_ray_cases import (
    CREATE_CLUSTER,
    CREATE_GROUP,
    ERRORS,
    HEAD,
    JOB_DRY_RUNS,
    SCALE,
    SHORT_YAML,
    TABLES,
    Case,
    at,
)

pytestmark = pytest.mark.timeout(120)
RAYJOB = """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: filed}
spec:
  submissionMode: %s
  backoffLimit: %s
  rayClusterSpec:
    headGroupSpec: {template: {spec: {containers: [{name: ray, image: i}]}}}
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[PlaneThread]:
    with (
        tempfile.TemporaryDirectory() as folder,
        plane_thread(Path(folder) / "plane") as plane,
    ):
        plane.wait(add_operator(plane.plane, "quay.io/kuberay/operator:v1.7.0"))
        yield plane


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "short.yaml").write_text(SHORT_YAML)
    (tmp_path / "odd.yaml").write_text("cpus: 2\n")
    (tmp_path / "k8sjob.yaml").write_text(RAYJOB % ("K8sJobMode", 0))
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "retries.yaml").write_text(RAYJOB % ("InteractiveMode", 2))
    return tmp_path


def namespace_for(plane: PlaneThread, words: object) -> str:
    """A namespace for one case, so that cases do not see each other's objects."""
    return plane.namespace(f"n{abs(hash(words)) % 10**9}")


def filled(words: Any, files: Path) -> list[str]:
    return [word.replace("{dir}", str(files)) for word in words]


def before_dashes(words: list[str], *more: str) -> list[str]:
    split = words.index("--") if "--" in words else len(words)
    return [*words[:split], *more, *words[split:]]


@pytest.mark.parametrize("case", [*CREATE_CLUSTER, *CREATE_GROUP, *SCALE], ids=lambda one: one.name)
def test_a_flag_has_its_effect(plane: PlaneThread, files: Path, case: Case) -> None:
    namespace = namespace_for(plane, case.name)
    ran = plane.ours(*filled(case.words, files), "-n", namespace)
    assert (ran.code, ran.err) == (0, "")
    found = plane.get(case.resource, namespace, case.of)
    assert {path: at(found, path) for path in case.effect} == case.effect
    managers = {one["manager"] for one in found["metadata"]["managedFields"]}
    assert "ray-kubectl-plugin" in managers or "Skipping" in ran.out


@pytest.mark.parametrize("case", CREATE_CLUSTER, ids=lambda one: one.name)
def test_a_dry_run_prints_what_would_be_created(
    plane: PlaneThread, files: Path, case: Case
) -> None:
    namespace = plane.namespace("dry")
    ran = plane.ours(*filled(case.words, files), "-n", namespace, "--dry-run")
    assert ran.code == 0
    printed = yaml.safe_load(ran.out)
    assert printed["metadata"]["namespace"] == "dry"
    by_server = f"{HEAD}.ports.1"  # with the default protocol
    wanted = {path: value for path, value in case.effect.items() if path != by_server}
    assert {path: at(printed, path) for path in wanted} == wanted
    assert not plane.exists(RAY_CLUSTERS, "dry", "new")


@pytest.mark.parametrize("case", JOB_DRY_RUNS, ids=lambda one: one.name)
def test_a_flag_of_job_submit_is_in_the_rayjob(plane: PlaneThread, files: Path, case: Case) -> None:
    ran = plane.ours(*before_dashes(filled(case.words, files), "-n", "team"))
    assert ran.code == 0, ran.err
    printed = yaml.safe_load(ran.out)
    assert {path: at(printed, path) for path in case.effect} == case.effect
    assert printed["spec"]["jobId"].startswith("raysubmit_")


@pytest.mark.parametrize(("words", "text"), ERRORS, ids=[" ".join(one[0]) for one in ERRORS])
def test_wrong_use_is_refused_and_changes_nothing(
    plane: PlaneThread, files: Path, words: Any, text: str
) -> None:
    namespace = plane.namespace("wrong")
    before = plane.wait(plane.plane.client.list(RAY_CLUSTERS, namespace)).items
    ran = plane.ours(*before_dashes(filled(words, files), "-n", namespace))
    assert ran.code in (1, 2)
    assert re.search(text, ran.err), ran.err
    assert plane.wait(plane.plane.client.list(RAY_CLUSTERS, namespace)).items == before
    assert not plane.exists(RAY_JOBS, namespace, "x")


# ── get ──────────────────────────────────────────────────────────────────────────────────

COLUMNS = {
    "cluster": "NAME NAMESPACE DESIRED-WORKERS AVAILABLE-WORKERS CPUS GPUS TPUS MEMORY CONDITION "
    "STATUS AGE",
    "workergroup": "NAME MIN MAX REPLICAS CPUS GPUS TPUS MEMORY CLUSTER",
    "node": "NAME CPUS GPUS TPUS MEMORY CLUSTER TYPE WORKER-GROUP AGE",
}


def cells(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


@pytest.mark.parametrize("what", COLUMNS)
def test_a_table_has_the_columns_of_the_plugin(plane: PlaneThread, what: str) -> None:
    ran = plane.ours("get", what, "-n", plane.namespace("seen"))
    header = [cell.replace(" ", "-") for cell in cells(ran.out.splitlines()[0])]
    assert header == COLUMNS[what].split()


def test_the_cells_of_clusters_groups_and_nodes(plane: PlaneThread) -> None:
    namespace = plane.namespace("seen")

    def row(*words: str) -> list[str]:
        return cells(plane.ours("get", *words, "-n", namespace).out.splitlines()[1])

    assert row("cluster", "demo")[:-1] == [
        *("demo", "seen", "2", "1", "5", "2", "0", "10Gi", "RayClusterProvisioned", "ready"),
    ]
    assert row("workergroup", "gpu") == ["gpu", "1", "4", "1/2", "3", "2", "0", "8Gi", "demo"]
    assert row("node", "demo-head")[:-1] == [
        *("demo-head", "1", "0", "0", "1Gi", "demo", "head", "headgroup"),
    ]


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_reads_succeed(plane: PlaneThread, words: Any) -> None:
    ran = plane.ours(*words, "-n", plane.namespace("seen"))
    assert ran.code == 0
    assert ran.out or "nobody" in words


@pytest.mark.parametrize("what", ["cluster", "workergroup", "node"])
def test_all_namespaces_are_listed_with_a(plane: PlaneThread, what: str) -> None:
    one, other = plane.namespace("seen"), plane.namespace("seen-too")
    out = plane.ours("get", what, "-A").out
    assert "NAMESPACE" in out.splitlines()[0]
    assert {one, other} <= set(out.split())


@pytest.mark.parametrize("what", ["cluster", "workergroup", "node", "rayjob", "raycronjob"])
@pytest.mark.parametrize("output", ["json", "yaml", "wide", "name", "jsonpath={.items[*].kind}"])
def test_every_kind_has_every_format(plane: PlaneThread, what: str, output: str) -> None:
    ran = plane.ours("get", what, "-o", output, "-n", plane.namespace("seen"))
    assert ran.code == 0, ran.err
    if output in ("json", "yaml"):
        assert yaml.safe_load(ran.out)["items"]
    kinds = {"cluster": "RayCluster", "workergroup": "WorkerGroup", "node": "Pod"}
    kinds |= {"rayjob": "RayJob", "raycronjob": "RayCronJob"}
    if output.startswith("jsonpath"):
        assert kinds[what] in ran.out


def test_a_selector_selects(plane: PlaneThread) -> None:
    namespace = plane.namespace("seen")
    ran = plane.ours("get", "cluster", "-l", "team=a", "-o", "name", "-n", namespace)
    assert ran.out == "raycluster.ray.io/demo\n"
    ran = plane.ours("get", "node", "-l", "ray.io/group=gpu", "-o", "name", "-n", namespace)
    assert ran.out.split() == ["pod/demo-gpu-1", "pod/demo-gpu-2"]


def test_the_token_is_of_the_cluster_or_of_the_secret_that_the_user_named(
    plane: PlaneThread,
) -> None:
    namespace = plane.namespace("seen")
    assert plane.ours("get", "token", "locked", "-n", namespace).out == "s3cret"
    assert plane.ours("get", "token", "named", "-n", namespace).out == "named"


def test_a_group_without_replicas_is_shown(plane: PlaneThread) -> None:
    namespace = namespace_for(plane, "unset")
    patch = [{"op": "remove", "path": "/spec/workerGroupSpecs/0/replicas"}]
    plane.wait(plane.plane.client.patch(RAY_CLUSTERS, Key(namespace, "demo"), patch, kind="json"))
    ran = plane.ours("get", "workergroup", "gpu", "-n", namespace)
    assert (ran.code, cells(ran.out.splitlines()[1])[3]) == (0, "1/0")


# ── delete, suspend, status, version ─────────────────────────────────────────────────────


def test_delete_asks_and_y_answers(plane: PlaneThread) -> None:
    namespace = namespace_for(plane, "delete")
    ran = plane.ours("delete", "demo", "-n", namespace, stdin="no\n")
    assert (ran.code, "Canceled deletion." in ran.out) == (0, True)
    assert plane.exists(RAY_CLUSTERS, namespace, "demo")
    ran = plane.ours("delete", "demo", "-n", namespace)
    assert (ran.code, "no answer" in ran.err) == (1, True)
    ran = plane.ours("delete", "demo", "-n", namespace, stdin="YES\n")
    assert "Deleted raycluster demo" in ran.out
    targets = ("rayjob/train", "RayService/web", "raycronjob/nightly", "raycluster/other")
    ran = plane.ours("delete", *targets, "-y", "-n", namespace)
    assert (ran.code, ran.out.count("Deleted")) == (0, 4)
    for resource, name in (
        (RAY_CLUSTERS, "demo"),
        (RAY_JOBS, "train"),
        (RAY_SERVICES, "web"),
        (RAY_CRON_JOBS, "nightly"),
        (RAY_CLUSTERS, "other"),
    ):
        assert not plane.exists(resource, namespace, name)
    assert plane.ours("delete", "demo", "--yes", "-n", namespace).code == 1


def test_objects_are_suspended_and_resumed(plane: PlaneThread) -> None:
    namespace = namespace_for(plane, "suspend")
    targets = ("demo", "rayjob/train", "raycronjob/nightly", "rayservice/web", "-n", namespace)
    objects = (
        (RAY_CLUSTERS, "demo"),
        (RAY_JOBS, "train"),
        (RAY_CRON_JOBS, "nightly"),
        (RAY_SERVICES, "web"),
    )
    for verb, wanted in (("suspend", True), ("resume", False)):
        assert plane.ours(verb, *targets).code == 0
        found = [plane.get(resource, namespace, name) for resource, name in objects]
        assert [bool(one["spec"].get("suspend")) for one in found] == [wanted] * 4


def test_the_status_of_a_rayservice_has_its_applications(plane: PlaneThread) -> None:
    out = plane.ours("status", "rayservice/web", "-n", plane.namespace("seen")).out
    assert "active cluster: demo" in out
    assert ["app", "echo", "HEALTHY"] in [cells(line) for line in out.splitlines()]


def test_version_finds_the_operator(plane: PlaneThread) -> None:
    out = plane.ours("version").out
    assert "KubeRay operator version: v1.7.0" in out
    assert out.startswith("kubectl ray plugin version: ")


def test_a_name_of_the_file_must_agree_with_the_command(plane: PlaneThread, files: Path) -> None:
    (files / "named.yaml").write_text("name: one\nnamespace: seen\n")
    words = ("create", "cluster", "--dry-run", "--file", str(files / "named.yaml"))
    assert plane.ours(*words, "two").code == 2
    assert plane.ours(*words, "one", "-n", "elsewhere").code == 2
    assert yaml.safe_load(plane.ours(*words, "one").out)["metadata"]["namespace"] == "seen"


def test_wait_ends_with_the_cluster_or_with_its_timeout(plane: PlaneThread) -> None:
    namespace = namespace_for(plane, "wait")
    words = ("-n", namespace, "--wait", "--timeout")
    ran = plane.ours("create", "cluster", "slow", *words, "200ms")
    assert (ran.code, "timed out" in ran.err) == (1, True)
    assert plane.exists(RAY_CLUSTERS, namespace, "slow")

    async def become_ready() -> None:
        client, key = plane.plane.client, Key(namespace, "quick")
        while not any(
            one["metadata"]["name"] == "quick"
            for one in (await client.list(RAY_CLUSTERS, namespace)).items
        ):
            await asyncio.sleep(0.05)
        await client.patch(RAY_CLUSTERS, key, {"status": {"state": "ready"}}, subresource="status")

    done = plane.start(become_ready())
    ran = plane.ours("create", "cluster", "quick", *words, "1m")
    done.result(10)
    assert (ran.code, "is provisioned" in ran.out) == (0, True)
