"""`kubectl ray job submit`: create the RayJob, send the files, submit the job, follow it.

Ray's own client is not needed: the files and the job go to the dashboard over HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_JOBS
from manta.api.usage import UsageError
from manta.cli.plugin import cluster_config as short
from manta.cli.plugin.create import head_fields, worker_fields
from manta.cli.plugin.job_environment import job_body, local_environment, read_rayjob
from manta.cli.plugin.job_follow import follow
from manta.cli.plugin.messages import Messages
from manta.cli.plugin.waiting import until_cluster
from manta.cli.server.connection import namespace_of, open_client
from manta.client.auth_token import token_if_any
from manta.client.dashboard_access import DashboardAccess, DashboardError
from manta.client.job_logs import FINISHED
from manta.client.runtime_env import LocalEnvironment
from manta.client.watch import states
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound
from manta.ray.models import Target

Document = dict[str, Any]
_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ123456789"
"""Letters and digits that are not confused, as in Ray."""
RETRY_SECONDS = 1.0


class JobError(MantaError):
    """The RayJob ended before the job was submitted."""


def run(args: argparse.Namespace) -> int:
    """Check flags and files first; nothing is created if they are invalid."""
    if not args.command:
        raise UsageError(
            "the entrypoint is missing; for example: kubectl ray job submit --name train "
            "--working-dir . -- python train.py"
        )
    if args.address is not None and not args.address.strip():
        raise UsageError("--address is empty: leave it out, or name a dashboard")
    messages = Messages(style=args.log_style, color=args.log_color)
    rayjob = read_rayjob(args) if args.filename is not None else None
    local = local_environment(args, rayjob)
    submission_id = args.submission_id or _new_id()
    if not args.submission_id:
        messages.say(f"Generated submission ID for Ray job: {submission_id}")
    document = rayjob or generated(args)
    document["spec"]["jobId"] = submission_id
    if args.dry_run:
        print(to_yaml(document).rstrip())
        return 0
    try:
        return asyncio.run(_Submission(args, document, local, messages).run())
    except KeyboardInterrupt:
        name = document["metadata"]["name"]
        messages.say(f"RayJob {name} keeps running; kubectl ray delete rayjob/{name} stops it")
        return 130


def _new_id() -> str:
    return "raysubmit_" + "".join(secrets.choice(_ALPHABET) for _ in range(16))


def entrypoint_of(command: list[str]) -> str:
    """The command as one line of the shell. A single word may be a whole line already."""
    return command[0] if len(command) == 1 else shlex.join(command)


def generated(args: argparse.Namespace) -> Document:
    """The RayJob of the flags. Raises UsageError."""
    if not args.name.strip():
        raise UsageError("give either a RayJob (--filename) or a name (--name)")
    config = short.ClusterConfig(
        ray_version=args.ray_version,
        image=args.image,
        head=short.Head(**head_fields(args)),
        worker_groups=(short.WorkerGroup(**worker_fields(args)),),
    )
    short.check(config)
    ttl = args.ttl_seconds_after_finished
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": args.name, "namespace": namespace_of(args)},
        "spec": {
            "submissionMode": "InteractiveMode",
            "entrypoint": entrypoint_of(args.command),
            "ttlSecondsAfterFinished": ttl or 0,
            "shutdownAfterJobFinishes": ttl is not None,
            "rayClusterSpec": short.build_spec(config),
        },
    }


class _Submission:
    """One submission, from the RayJob to the exit code."""

    def __init__(
        self, args: argparse.Namespace, document: Document, local: LocalEnvironment, say: Messages
    ) -> None:
        self._args = args
        self._document = document
        self._local = local
        self._say = say
        meta = document["metadata"]
        self._key = Key(meta.get("namespace") or namespace_of(args), meta["name"])
        self._id: str = document["spec"]["jobId"]

    async def run(self) -> int:
        async with open_client(self._args) as client:
            await self._create(client)
            self._say.say(f"Submitted RayJob {self._key.name}.")
            cluster = await self._unless_finished(client, self._cluster_ready(client))
            async with self._dashboard(client, cluster) as dashboard:
                await self._unless_finished(client, self._reach(dashboard))
                await self._submit(dashboard)
                if self._args.no_wait:
                    self._say.say(f"Ray job submitted with ID {self._id}")
                    return 0
                return await follow(client, dashboard, self._key, self._id, self._say)

    async def _create(self, client: Client) -> None:
        """Raises UsageError for a taken name."""
        try:
            await client.get(RAY_JOBS, self._key)
        except NotFound:
            await client.patch(
                RAY_JOBS, self._key, self._document, kind="apply", field_manager=short.FIELD_MANAGER
            )
            return
        raise UsageError(
            f"RayJob {self._key} already exists: choose another name, or delete it: "
            f"kubectl ray delete rayjob/{self._key.name}"
        )

    async def _cluster_ready(self, client: Client) -> Document:
        """The RayCluster of the job once it is ready, however long that takes."""
        async for job in states(client, RAY_JOBS, self._key):
            name = (job.get("status") or {}).get("rayClusterName")
            if name:
                self._say.say(f"Waiting for RayCluster {name}")
                return await until_cluster(client, Key(self._key.namespace, name), verbose=True)
        raise AssertionError("states() never ends")

    async def _unless_finished(self, client: Client, wanted: Any) -> Any:
        """The result of `wanted`. Raises JobError if the RayJob ends first."""
        ending = asyncio.create_task(_finished(client, self._key))
        working = asyncio.create_task(wanted)
        try:
            await asyncio.wait({ending, working}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            status = ending.result()
        finally:
            for task in (ending, working):
                task.cancel()
            await asyncio.gather(ending, working, return_exceptions=True)
        why = status.get("message") or status.get("reason") or "no reason is given"
        raise JobError(f"RayJob {self._key.name} is {status['jobDeploymentStatus']}: {why}")

    @asynccontextmanager
    async def _dashboard(self, client: Client, cluster: Document) -> AsyncIterator[DashboardAccess]:
        if self._args.address:
            from manta.cli.plugin.address import dashboard_at

            self._say.say(f"Using address {self._args.address}")
            async with dashboard_at(self._args) as dashboard:
                yield dashboard
            return
        service = ((cluster.get("status") or {}).get("head") or {}).get("serviceName", "")
        key = Key(self._key.namespace, cluster["metadata"]["name"])
        service = service or f"{key.name}-head-svc"
        token = await token_if_any(client, key)
        target = Target(key.namespace, service, host="", token=token)
        yield DashboardAccess.through_api_server(client, target)

    async def _reach(self, dashboard: DashboardAccess) -> None:
        said = ""
        while why := await dashboard.ping():
            if why != said:
                self._say.say(f"Waiting for the dashboard: {why}")
                said = why
            await asyncio.sleep(RETRY_SECONDS)

    async def _submit(self, dashboard: DashboardAccess) -> None:
        for upload in self._local.uploads:
            uri = await dashboard.upload(upload.name, upload.data)
            if self._args.verbose:
                self._say.say(f"Uploaded {upload.what} as {uri}")
        body = job_body(self._args, self._id, entrypoint_of(self._args.command), self._local.env)
        if self._args.verbose:
            self._say.say(f"Submitting {body['entrypoint']}")
        try:
            await dashboard.submit(body)
        except DashboardError as error:
            raise DashboardError(
                f"{error}\nRayJob {self._key.name} waits for a job; "
                f"kubectl ray delete rayjob/{self._key.name} removes it"
            ) from error


async def _finished(client: Client, key: Key) -> Document:
    """The status of the RayJob once it is terminal."""
    async for job in states(client, RAY_JOBS, key):
        status = job.get("status") or {}
        if status.get("jobDeploymentStatus") in FINISHED:
            return dict(status)
    raise AssertionError("states() never ends")
