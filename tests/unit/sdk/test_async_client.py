"""AsyncClient on the embedded server with the real controllers, under virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import manta
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import CONFIG_MAPS, PODS
from manta.client.dashboard_access import DashboardError
from manta.kube.errors import AlreadyExists, NotFound, Unreachable
from support.raycluster import NAMESPACE
from support.rayjob_scenario import is_running
from support.sdk import an_async_client
from support.virtual import virtually

SERVE = {"applications": [{"name": "text", "import_path": "app:text"}]}


@virtually
async def test_a_cluster_is_created_waited_for_and_runs_a_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    async with an_async_client(finish_after=30) as (ray, scenario):
        cluster = await ray.clusters.create(
            name="demo", workers=manta.WorkerGroup(replicas=2, cpu=4, gpu=1)
        )
        lines: list[str] = []
        await cluster.wait_ready(progress=lines.append)
        assert lines
        assert cluster.status.state == "ready"
        assert cluster.status.ready_worker_replicas == 2
        job = await cluster.submit("python train.py", working_dir=tmp_path)
        assert job.object.spec.cluster_selector == {"ray.io/cluster": "demo"}
        status = await job.result()
        assert status.job_status == "SUCCEEDED"
        assert job.finished
        assert len(scenario.ray.executions) == 1


@virtually
async def test_a_wait_sends_no_request_while_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is a watch, not a poll."""
    async with an_async_client() as (ray, scenario):
        job = await ray.jobs.submit(["sleep", "inf"], name="demo")
        waiting = asyncio.create_task(job.wait())
        await scenario.until(is_running)
        sent: list[object] = []

        async def refused(*wanted: object, **_: object) -> None:
            sent.append(wanted)

        for verb in ("get", "list"):
            monkeypatch.setattr(scenario.client, verb, refused)
        await asyncio.sleep(100)
        assert sent == []
        assert not waiting.done()
        waiting.cancel()


@virtually
async def test_a_failed_job_raises_its_exit_code() -> None:
    async with an_async_client() as (ray, scenario):
        job = await ray.jobs.submit(["python", "-c", "x"], name="demo")
        running = await scenario.until(is_running)
        message = "Job entrypoint command failed with exit code 7, last available logs: x"
        scenario.end(running, "FAILED", message)
        with pytest.raises(manta.JobFailed, match=r"default/demo: .*exit code 7$") as failed:
            await job.result()
        assert failed.value.exit_code == 7
        assert failed.value.status.job_status == "FAILED"


@virtually
async def test_a_wait_that_takes_too_long_says_what_is_missing() -> None:
    async with an_async_client() as (ray, scenario):
        scenario.kubelet.script = lambda _: {"phase": "Pending"}
        cluster = await ray.clusters.create(name="demo")
        with pytest.raises(
            manta.WaitTimeout, match=r"did not come within 30 s: .+timeout="
        ) as late:
            await cluster.wait_ready(timeout=30)
        assert isinstance(late.value, TimeoutError)
        assert late.value.why


@virtually
async def test_a_wait_for_what_is_deleted_ends() -> None:
    async with an_async_client() as (ray, _):
        job = await ray.jobs.submit(["sleep", "inf"], name="demo")
        waiting = asyncio.create_task(job.wait())
        await asyncio.sleep(5)
        await job.delete(wait=True)
        with pytest.raises(manta.Deleted, match="default/demo was deleted before the end"):
            await waiting


@virtually
async def test_a_wait_survives_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with an_async_client(finish_after=30) as (ray, scenario):
        job = await ray.jobs.submit(["true"], name="demo")
        real, broken = scenario.client.watch, []

        def watch(resource, *args, **options):
            if resource == RAY_JOBS and options.get("fields") and len(broken) < 2:
                broken.append(resource)
                raise Unreachable("the line is cut", sent=True)
            return real(resource, *args, **options)

        monkeypatch.setattr(scenario.client, "watch", watch)
        assert (await job.result()).job_status == "SUCCEEDED"
        assert len(broken) == 2


@virtually
async def test_another_object_of_the_same_name_is_not_waited_for_and_not_deleted() -> None:
    async with an_async_client() as (ray, scenario):
        first = await ray.clusters.create(name="demo", suspend=True)
        await first.delete(wait=True)
        second = await ray.clusters.create(name="demo", suspend=True)
        with pytest.raises(manta.Deleted):
            await first.wait_ready()
        await first.delete()
        assert (await second.refresh()).uid == second.uid
        assert not (await scenario.client.get(RAY_CLUSTERS, Key(NAMESPACE, "demo")))[
            "metadata"
        ].get("deletionTimestamp")


@virtually
async def test_with_deletes_what_it_made_also_after_an_error() -> None:
    async with an_async_client() as (ray, _):
        with pytest.raises(RuntimeError, match="of the program"):
            async with await ray.clusters.create(name="demo"):
                raise RuntimeError("of the program")
        await asyncio.sleep(60)
        assert await ray.clusters.list() == []


@virtually
async def test_a_client_with_cleanup_deletes_only_what_it_made() -> None:
    async with an_async_client() as (ray, scenario):
        await ray.clusters.create(name="theirs", suspend=True)
        cleaning = manta.AsyncClient.from_kube(scenario.client, NAMESPACE, cleanup=True)
        await cleaning.clusters.create(name="mine", suspend=True)
        await cleaning.jobs.submit(["true"], name="job")
        await cleaning.clusters.get("theirs")
        await cleaning.close()
        await asyncio.sleep(60)
        assert [one.name for one in await ray.clusters.list()] == ["theirs"]
        assert await ray.jobs.list() == []


@virtually
async def test_scale_widens_the_bounds_and_names_a_wrong_group() -> None:
    async with an_async_client() as (ray, _):
        cluster = await ray.clusters.create(name="demo", workers=manta.WorkerGroup(replicas=1))
        await cluster.scale(3)
        await cluster.wait_ready()
        assert cluster.status.ready_worker_replicas == 3
        assert cluster.object.spec.worker_group_specs[0].max_replicas == 3
        with pytest.raises(manta.InvalidValue, match="group='gpu': raycluster/demo has workers"):
            await cluster.scale(1, "gpu")
        with pytest.raises(manta.InvalidValue, match="replicas=-1: must be 0 or more"):
            await cluster.scale(-1)


@virtually
async def test_suspend_removes_the_pods_and_resume_brings_them_back() -> None:
    async with an_async_client() as (ray, scenario):
        cluster = await ray.clusters.create(name="demo")
        await cluster.wait_ready()
        await cluster.suspend()
        await cluster.wait_for(lambda one: one.status.state == "suspended", what="suspended")
        assert (await scenario.client.list(PODS, NAMESPACE)).items == []
        await (await cluster.resume()).wait_ready()
        assert cluster.status.state == "ready"


@virtually
async def test_a_log_that_never_could_be_read_is_followed_until_the_end_and_says_why() -> None:
    async with an_async_client(finish_after=20) as (ray, _):
        manifest = {
            "metadata": {"name": "demo"},
            "spec": {
                "entrypoint": "python x.py",
                "submissionMode": "HTTPMode",
                "rayClusterSpec": manta.build_cluster(name="x").to_dict()["spec"],
            },
        }
        job = await ray.jobs.create(manifest)
        with pytest.raises(DashboardError, match="no endpoints available for service"):
            assert [line async for line in job.logs(follow=True)] == []
        assert (await job.refresh()).finished


@virtually
async def test_a_manifest_is_taken_typed_as_a_mapping_and_as_yaml() -> None:
    async with an_async_client() as (ray, _):
        typed = manta.build_cluster(name="typed", suspend=True)
        yaml = typed.to_yaml().replace("typed", "text")
        await ray.clusters.create(typed)
        await ray.clusters.create(yaml)
        mapping = {**typed.to_dict(), "metadata": {"name": "mapped"}}
        await ray.clusters.create(mapping)
        assert sorted(one.name for one in await ray.clusters.list()) == ["mapped", "text", "typed"]
        assert mapping["metadata"] == {"name": "mapped"}


@virtually
async def test_what_is_read_can_be_created_again_elsewhere() -> None:
    async with an_async_client() as (ray, _):
        first = await ray.clusters.create(name="demo", suspend=True, labels={"team": "a"})
        again = await ray.clusters.create(first.to_yaml().replace("demo", "copy"))
        assert again.object.spec == first.object.spec
        assert again.object.metadata.labels == {"team": "a"}


@virtually
async def test_apply_creates_then_changes_and_refuses_the_fields_of_others() -> None:
    async with an_async_client() as (ray, scenario):
        cluster = manta.build_cluster(name="demo", suspend=True)
        first = await ray.clusters.apply(cluster)
        changed = manta.build_cluster(name="demo", suspend=True, ray_version="2.59.0")
        second = await ray.clusters.apply(changed)
        assert second.uid == first.uid
        assert second.object.spec.ray_version == "2.59.0"
        await scenario.client.patch(
            RAY_CLUSTERS, Key(NAMESPACE, "demo"), {"spec": {"rayVersion": "2.58.0"}}
        )
        with pytest.raises(manta.Conflict, match="rayVersion"):
            await ray.clusters.apply(cluster)
        assert (await ray.clusters.apply(cluster, force=True)).object.spec.ray_version == "2.60.0"


@virtually
async def test_lists_select_by_labels_and_namespaces() -> None:
    async with an_async_client() as (ray, _):
        await ray.clusters.create(name="a", suspend=True, labels={"team": "a"})
        await ray.clusters.create(name="b", suspend=True, labels={"team": "b"})
        await ray.clusters.create(name="c", suspend=True, namespace="kube-system")
        assert [one.name for one in await ray.clusters.list(labels={"team": "b"})] == ["b"]
        assert len(await ray.clusters.list()) == 2
        assert len(await ray.clusters.list(all_namespaces=True)) == 3
        assert await ray.clusters.delete("c", namespace="kube-system") is True
        assert await ray.clusters.delete("c") is False


@virtually
async def test_a_service_and_a_cron_job_are_created_and_changed() -> None:
    async with an_async_client() as (ray, _):
        service = await ray.services.create(name="text", serve_config=SERVE)
        assert service.url == "http://text-serve-svc.default.svc:8000"
        await service.update(serve_config="applications: []\n")
        assert service.object.spec.serve_config_v2 == "applications: []\n"
        assert (await service.suspend()).object.spec.suspend is True
        cron = await ray.cron_jobs.create(
            name="nightly", schedule="0 3 * * *", entrypoint="python /app/x.py", suspend=True
        )
        assert cron.status.last_schedule_time is None
        assert (await cron.resume()).object.spec.suspend is False
        job = await cron.trigger()
        assert job.name.startswith("nightly-")
        assert job.object.spec.entrypoint == "python /app/x.py"
        assert await cron.jobs() == []


@virtually
async def test_a_service_is_ready_only_with_its_current_spec() -> None:
    from manta.sdk.async_services import service_is_ready

    ready = {"type": "Ready", "status": "True"}
    document = {
        "metadata": {"generation": 2},
        "status": {"observedGeneration": 1, "conditions": [ready]},
    }
    assert not service_is_ready(document).ready
    document["status"]["observedGeneration"] = 2  # type: ignore[index]
    assert service_is_ready(document).ready


# ── errors ───────────────────────────────────────────────────────────────────────────────


@virtually
async def test_bad_input_names_field_and_value_and_creates_nothing(tmp_path: Path) -> None:
    async with an_async_client() as (ray, scenario):
        cluster = await ray.clusters.create(name="demo", suspend=True)
        create: Any = ray.clusters.create  # what a type checker refuses
        attempts = (
            (lambda: ray.clusters.create(name="Demo"), "metadata.name='Demo'"),
            (create, "name=None: give a name"),
            (
                lambda: create({"metadata": {"name": "x"}}, name="x"),
                "either a manifest or",
            ),
            (lambda: ray.clusters.create({"metadata": {}, "spec": {}}), "metadata.name=None"),
            (lambda: ray.clusters.create("a: [1"), r"manifest='a: .1': not valid YAML"),
            (
                lambda: ray.clusters.create({"kind": "RayJob", "metadata": {"name": "x"}}),
                "kind='RayJob'",
            ),
            (
                lambda: ray.clusters.create(name="x", workers=manta.WorkerGroup(memory="2 GB")),
                r"workers\[0\].memory='2 GB': not a Kubernetes quantity.*did you mean 2Gi",
            ),
            (
                lambda: ray.clusters.create(name="x", workers=manta.WorkerGroup(), autoscale=True),
                r"workers\[0\].max_replicas=None: an autoscaler needs a limit",
            ),
            (lambda: cluster.submit("python 'x.py"), "close the quotes"),
            (lambda: cluster.submit(""), "command='': give a command"),
            (
                lambda: cluster.submit("python x.py", working_dir=tmp_path / "no"),
                "working_dir=.*no such dir",
            ),
            (lambda: cluster.submit("python x.py", working_dir=tmp_path), "x.py: no such file in"),
            (lambda: ray.jobs.submit("true", retries=-1), "retries=-1: must be a whole number"),
            (
                lambda: ray.jobs.submit("true", env={"A": "b"}, runtime_env={"env_vars": {}}),
                "runtime_env has env_vars already",
            ),
            (lambda: ray.services.create(name="x", serve_config="a: [1"), "spec.serveConfigV2"),
            (
                lambda: ray.cron_jobs.create(name="x", schedule="often", entrypoint="true"),
                "spec.schedule='often'",
            ),
        )
        for attempt, message in attempts:
            with pytest.raises(manta.InvalidValue, match=message) as refused:
                await attempt()
            assert isinstance(refused.value, ValueError)
            assert refused.value.field
            assert "--" not in str(refused.value)
        assert [one.name for one in await ray.clusters.list()] == ["demo"]
        for others in (
            await ray.jobs.list(),
            await ray.services.list(),
            await ray.cron_jobs.list(),
        ):
            assert others == []
        carried = (await scenario.client.list(CONFIG_MAPS, NAMESPACE)).items
        assert [one for one in carried if "package" in one["metadata"]["name"]] == []


@virtually
async def test_errors_of_the_server_are_exceptions() -> None:
    async with an_async_client() as (ray, _):
        await ray.clusters.create(name="demo", suspend=True)
        with pytest.raises(AlreadyExists, match="demo"):
            await ray.clusters.create(name="demo")
        with pytest.raises(NotFound, match="nowhere"):
            await ray.clusters.get("nowhere")
        document = manta.build_cluster(name="x").to_dict()
        document["spec"]["headGroupSpec"]["templat"] = {}
        with pytest.raises(manta.ApiError, match=r"spec\.headGroupSpec\.templat"):
            await ray.clusters.create(document)
        await ray.jobs.submit("true", name="job")
        with pytest.raises(manta.InvalidValue, match="name='job': namespace default has a RayJob"):
            await ray.jobs.submit("true", name="job")


# ── files and environment of a job ───────────────────────────────────────────────────────


@virtually
async def test_a_shell_command_stays_one_and_words_are_quoted() -> None:
    async with an_async_client() as (ray, _):
        shell = await ray.jobs.submit("echo a && echo $HOME", name="shell")
        words = await ray.jobs.submit(["echo", "a && b"], name="words")
        assert shell.object.spec.entrypoint == "echo a && echo $HOME"
        assert words.object.spec.entrypoint == "echo 'a && b'"


@virtually
async def test_environment_packages_deadline_and_shape_reach_the_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    async with an_async_client() as (ray, _):
        job = await ray.jobs.submit(
            "python train.py",
            name="demo",
            runtime_env={"working_dir": str(tmp_path)},
            env={"A": "b"},
            pip=["emoji"],
            deadline=60,
            retries=2,
            keep_cluster=True,
            image="rayproject/ray:2.59.0",
            workers=[manta.WorkerGroup(name="cpu"), manta.WorkerGroup(name="gpu", gpu=1)],
        )
        spec = job.object.spec
        assert spec.ray_cluster_spec is not None
        assert [one.group_name for one in spec.ray_cluster_spec.worker_group_specs] == [
            "cpu",
            "gpu",
        ]
        assert spec.ray_cluster_spec.ray_version == "2.59.0"
        assert (spec.active_deadline_seconds, spec.backoff_limit) == (60, 2)
        assert not spec.shutdown_after_job_finishes
        assert spec.runtime_env_yaml.splitlines() == [
            "env_vars:",
            "  A: b",
            "pip:",
            "- emoji",
            "working_dir: /manta/package/package.zip",
        ]
        assert spec.submitter_pod_template is not None
        [container] = spec.submitter_pod_template["spec"]["containers"]
        assert container["image"] == "rayproject/ray:2.59.0"


@virtually
async def test_files_that_look_like_secrets_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    (tmp_path / ".env").write_text("PASSWORD=x")
    async with an_async_client() as (ray, _):
        with pytest.warns(UserWarning, match=r"look like secrets.*\.env \(exclude"):
            await ray.jobs.submit("python x.py", working_dir=tmp_path)
