"""The charts of Ray objects on a whole control plane: installed, upgraded and uninstalled by Helm."""

from __future__ import annotations

from typing import Any

from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import PODS
from support.operator_fixture import OperatorFixture, until
from support.ray_charts import ray_release

Json = dict[str, Any]


def is_ready(status: Json) -> bool:
    return bool(status.get("state") == "ready")


def serves(status: Json) -> bool:
    conditions = status.get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def images(pods: list[Json]) -> set[str]:
    return {str(one["spec"]["containers"][0]["image"]) for one in pods}


async def test_a_cluster_is_installed_scaled_recreated_and_removed(
    operated: OperatorFixture, name: str
) -> None:
    async with ray_release(operated, "ray-cluster", name) as release:
        notes = await release.install("--set", "upgradeStrategy.type=Recreate")
        assert f"raycluster/{name}" in notes
        await operated.until(RAY_CLUSTERS, name, is_ready)
        assert images(await operated.pods(name)) == {"rayproject/ray:2.52.0"}
        recreate = ("--set", "upgradeStrategy.type=Recreate")
        await release.upgrade(*recreate, "--set", "worker.replicas=3")
        await operated.until_pods(3, name)
        await release.upgrade(*recreate, "--set", "worker.replicas=3,image.tag=2.53.0")

        async def replaced() -> bool:
            return images(await operated.pods(name)) == {"rayproject/ray:2.53.0"}

        await until(replaced, lambda: operated.pods(name))
        await operated.until_pods(3, name)
        await release.helm("uninstall")
        await operated.until_gone(RAY_CLUSTERS, name)
        await operated.until_none(PODS, f"ray.io/cluster={name}")


async def test_an_upgrade_keeps_the_replicas_that_the_autoscaler_chose(
    operated: OperatorFixture, name: str
) -> None:
    def replicas(cluster: Json | None) -> int:
        assert cluster is not None
        return int(cluster["spec"]["workerGroupSpecs"][0]["replicas"])

    scaled = ("--set", "head.enableInTreeAutoscaling=true,worker.maxReplicas=5")
    async with ray_release(operated, "ray-cluster", name) as release:
        await release.install(*scaled)
        chosen = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 4}]
        await operated.edit(RAY_CLUSTERS, name, chosen)
        await release.upgrade(*scaled, "--set", "worker.labels.a=b")
        found = await operated.get(RAY_CLUSTERS, name)
        assert replicas(found) == 4
        await release.upgrade("--set", "head.enableInTreeAutoscaling=true,worker.maxReplicas=3")
        assert replicas(await operated.get(RAY_CLUSTERS, name)) == 3
        await release.upgrade("--set", "worker.replicas=2")
        assert replicas(await operated.get(RAY_CLUSTERS, name)) == 2


async def test_a_service_serves_and_takes_a_new_config_without_a_new_cluster(
    operated: OperatorFixture, name: str
) -> None:
    def config(app: str) -> tuple[str, str]:
        return ("--set", f"serveConfigV2.applications[0].name={app}")

    async with ray_release(operated, "ray-service", name) as release:
        await release.install(*config("first"))
        found = await operated.until(RAY_SERVICES, name, serves)
        cluster = found["status"]["activeServiceStatus"]["rayClusterName"]
        await release.upgrade(*config("second"))

        def has_second(status: Json) -> bool:
            return "second" in status["activeServiceStatus"].get("applicationStatuses", {})

        found = await operated.until(RAY_SERVICES, name, has_second)
        assert found["status"]["activeServiceStatus"]["rayClusterName"] == cluster
    await operated.until_gone(RAY_SERVICES, name)


async def test_a_job_runs_and_an_upgrade_runs_it_again_if_asked(
    operated: OperatorFixture, name: str
) -> None:
    options = ("--set", "entrypoint=main,submissionMode=HTTPMode,rerunOnUpgrade=true")
    async with ray_release(operated, "ray-job", name) as release:
        await release.install(*options)
        first = await operated.until(RAY_JOBS, f"{name}-1", lambda one: one.get("jobStatus"))
        await release.upgrade(*options)
        await operated.until_gone(RAY_JOBS, f"{name}-1")
        second = await operated.until(RAY_JOBS, f"{name}-2", lambda one: one.get("jobStatus"))
        assert first["status"]["jobId"] != second["status"]["jobId"]
    await operated.until_gone(RAY_JOBS, f"{name}-2")


async def test_a_schedule_makes_a_cron_job_and_taking_it_away_a_job(
    operated: OperatorFixture, name: str
) -> None:
    name = name[:30]
    async with ray_release(operated, "ray-job", name) as release:
        await release.install("--set", "entrypoint=main,schedule=0 3 * * *,suspend=true")
        cron = await operated.get(RAY_CRON_JOBS, name)
        assert cron is not None
        assert cron["spec"]["jobTemplate"]["entrypoint"] == "main"
        await release.upgrade("--set", "entrypoint=main,suspend=true")
        await operated.until_gone(RAY_CRON_JOBS, name)
        job = await operated.get(RAY_JOBS, name)
        assert job is not None
        assert job["spec"]["suspend"]
