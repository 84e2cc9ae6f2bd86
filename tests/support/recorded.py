"""Recordings for tests: a generated user on the embedded plane under virtual time, and all four controllers.

Secrets are planted wherever a user may write one: `SECRETS` must not be in any recording.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import ApiError
from manta.localplane.inprocess import InProcessTransport
from manta.operator.controllers import build_controllers
from manta.reconcile.observer import Reconciled
from manta.recording.reader import Recorded, files_of, read_recording
from manta.recording.recorder import FlightRecorder
from manta.rules.settings import FeatureGates, Settings
from manta.runtime.manager import Manager
from support.fakenodes import FakeCluster, fake_cluster
from support.raycluster import NAMESPACE, container, group, ray_cluster, template
from support.raycrds import ray_crds
from support.raycronjob import ray_cron_job
from support.rayjob import ray_job
from support.rayservice_objects import ray_service
from support.virtual import running
from support.virtual_time import run_virtual

Json = dict[str, Any]
SECRETS = tuple(f"planted{number:02d}Secret9x" for number in range(20))
_KINDS = (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, RAY_CRON_JOBS)


def settings() -> Settings:
    return Settings(
        gates=FeatureGates(ray_cluster_network_policy=True),
        use_kubernetes_proxy=True,
        default_container_envs=({"name": "FROM_OPERATOR", "value": SECRETS[0]},),
    )


def record(folder: Path, count: int, seed: int = 1, max_bytes: int = 1 << 30) -> int:
    """Record at least so many reconciles of generated objects. Returns how many they are."""
    return run_virtual(_record(folder, count, seed, max_bytes))


def read(folder: Path) -> Iterator[Recorded]:
    for path in files_of([folder]):
        for one in read_recording(path):
            assert isinstance(one, Recorded), one
            yield one


async def _record(folder: Path, count: int, seed: int, max_bytes: int) -> int:
    async with fake_cluster(3, crds=ray_crds()) as cluster:
        recorder = FlightRecorder(folder, cluster.plane.clock, max_bytes, cpu_share=1.0)
        seen = 0

        def observe(one: Reconciled) -> None:
            nonlocal seen
            seen += 1
            recorder(one)

        client = Client(InProcessTransport(cluster.plane.app))
        manager = Manager(client, cluster.plane.clock, Random(seed), observer=observe)
        build_controllers(manager, settings())
        async with running(manager.run()):
            user = User(cluster, Random(seed))
            while seen < count:
                await user.act()
                await asyncio.sleep(user.random.choice((0.1, 1.0, 5.0, 40.0)))
        await client.close()
        recorder.close()
        return seen


class User:
    """Creates, edits and deletes objects at random."""

    def __init__(self, cluster: FakeCluster, random: Random) -> None:
        self._cluster = cluster
        self.random = random
        self._live: list[tuple[Resource, str]] = []
        self._made = 0

    async def act(self) -> None:
        try:
            match self.random.random():
                case part if part < 0.35 or not self._live:
                    await self._create()
                case part if part < 0.85:
                    await self._edit()
                case _:
                    await self._delete()
        except ApiError:
            pass  # such as an edit of an object that is gone: the next act follows

    async def _create(self) -> None:
        if len(self._live) > 8:
            return
        self._made += 1
        resource = self.random.choice(_KINDS)
        name = f"{resource.plural[:6]}-{self._made}"
        await self._cluster.client.create(resource, NAMESPACE, self._object(resource, name))
        self._live.append((resource, name))

    async def _delete(self) -> None:
        resource, name = self._live.pop(self.random.randrange(len(self._live)))
        await self._cluster.client.delete(resource, Key(NAMESPACE, name))

    async def _edit(self) -> None:
        resource, name = self.random.choice(self._live)
        changes: Json = {"metadata": {"labels": {"edited": str(self.random.randrange(9))}}}
        if resource is RAY_CLUSTERS:
            changes["spec"] = {
                "suspend": self.random.random() < 0.2,
                "workerGroupSpecs": [self._group()],
            }
        elif resource is RAY_SERVICES:
            changes["spec"] = {"rayClusterConfig": self._cluster_spec()}
        else:
            changes["spec"] = {"suspend": self.random.random() < 0.3}
        await self._cluster.client.patch(resource, Key(NAMESPACE, name), changes)

    # ── objects with secrets ─────────────────────────────────────────────────────────────

    def _object(self, resource: Resource, name: str) -> Json:
        found = self._plain(resource, name)
        annotations = found["metadata"].setdefault("annotations", {})
        annotations["kubectl.kubernetes.io/last-applied-configuration"] = SECRETS[1]
        annotations["example.com/api-token"] = SECRETS[2]
        annotations["example.com/curl"] = f"curl -H 'Authorization: Bearer {SECRETS[3]}'"
        annotations["example.com/config"] = f'{{"db": {{"password": "{SECRETS[16]}"}}}}'
        return found

    def _plain(self, resource: Resource, name: str) -> Json:
        spec = self._cluster_spec()
        environment = f"env_vars: {{HF_KEY: {SECRETS[4]}, DEBUG: '1'}}\npip: [requests]\n"
        if resource is RAY_CLUSTERS:
            return {**ray_cluster(name), "spec": spec}
        if resource is RAY_JOBS:
            mode = self.random.choice(("K8sJobMode", "HTTPMode", "SidecarMode"))
            return ray_job(
                name,
                rayClusterSpec=spec,
                submissionMode=mode,
                entrypoint=f"python main.py --password={SECRETS[5]} --url http://u:{SECRETS[6]}@x/",
                runtimeEnvYAML=environment,
                metadata={"owner_token": SECRETS[17]},
                activeDeadlineSeconds=self.random.choice((60, 3600)),
                ttlSecondsAfterFinished=10,
                shutdownAfterJobFinishes=True,
            )
        if resource is RAY_SERVICES:
            application = f"  runtime_env: {{env_vars: {{KEY: {SECRETS[7]}}}}}\n"
            config = f"applications:\n- name: app\n  import_path: a:b\n{application}"
            return ray_service(name, rayClusterConfig=spec, serveConfigV2=config)
        job = ray_job("x", rayClusterSpec=spec, runtimeEnvYAML=environment)["spec"]
        return ray_cron_job(name, schedule="*/5 * * * *", jobTemplate=job)

    def _cluster_spec(self) -> Json:
        env = [
            {"name": "AWS_SECRET_ACCESS_KEY", "value": SECRETS[8]},
            {"name": "MODE", "value": self.random.choice(("fast", "slow", SECRETS[9]))},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ]
        head_container = container(
            env=env, args=[f"--api-key={SECRETS[10]}", "--token", SECRETS[18]]
        )
        head = {
            "template": template(head_container, initContainers=[container("init", env=env)]),
            "rayStartParams": {"dashboard-host": "0.0.0.0"},
        }
        spec: Json = ray_cluster("x", [self._group()], head=head)["spec"]
        if self.random.random() < 0.3:
            spec["gcsFaultToleranceOptions"] = {
                "redisAddress": f"redis://user:{SECRETS[11]}@redis:6379",
                "redisPassword": {"value": SECRETS[12]},
            }
        if self.random.random() < 0.3:
            spec["enableInTreeAutoscaling"] = True
            spec["autoscalerOptions"] = {"env": [{"name": "TOKEN", "value": SECRETS[13]}]}
        if self.random.random() < 0.2:
            spec["authOptions"] = {"mode": "token"}
        return spec

    def _group(self) -> Json:
        env = [{"name": "DB", "value": f"postgres://me:{SECRETS[14]}@db/x"}]
        body = template(container(env=env))
        body["metadata"] = {"annotations": {"vault/secret": SECRETS[15]}}
        return group(replicas=self.random.randrange(4), template=body)
