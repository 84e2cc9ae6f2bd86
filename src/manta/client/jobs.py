"""Create and stop RayJobs on the API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import CONFIG_MAPS
from manta.api.usage import UsageError
from manta.client.auth_token import target_of
from manta.client.dashboard import ProxyTransport
from manta.client.job_logs import target_of_job
from manta.client.package import Package
from manta.client.submission import Submission, build_job, build_packages
from manta.kube.client import Client
from manta.kube.errors import ApiError, MantaError, NotFound
from manta.ray.dashboard import Dashboard
from manta.ray.models import Accepted, Unreachable
from manta.rules.traits import ray_container_of


class StopError(MantaError):
    """Ray did not confirm that it stops the job."""


class SubmitError(MantaError):
    """The package did not reach the cluster."""


async def create(client: Client, submission: Submission, package: Package | None) -> Key:
    """Create the ConfigMaps of the package, then the RayJob that mounts and owns them.

    Raises UsageError for a taken name or an unknown cluster, SubmitError if an upload fails, and
    ApiError.
    """
    key = Key(submission.namespace, submission.name)
    if submission.cluster:
        submission = await _with_image_of_cluster(client, submission)
    uploaded = ""
    if package is not None and submission.cluster and not package.fits_configmap:
        uploaded = await _upload(client, submission, package)
    carried = [] if package is None or uploaded else build_packages(submission, package)
    manifest = build_job(submission, package, uploaded)
    await _refuse_taken_name(client, key)
    created: list[Key] = []
    try:
        for document in carried:
            await client.create(CONFIG_MAPS, key.namespace, document)
            created.append(Key(key.namespace, document["metadata"]["name"]))
        job = await client.create(RAY_JOBS, key.namespace, manifest, into=RayJob)
    except ApiError as error:
        # Nothing owns them, unless the server created the RayJob although it reported an error.
        for one in () if error.unknown else created:
            await client.delete(CONFIG_MAPS, one)
        raise
    for one in created:
        await client.patch(CONFIG_MAPS, one, {"metadata": {"ownerReferences": [_owner(job)]}})
    return key


def _owner(job: RayJob) -> dict[str, Any]:
    return RAY_JOBS.owner_reference(job.metadata)


async def _refuse_taken_name(client: Client, key: Key) -> None:
    try:
        await client.get(RAY_JOBS, key)
    except NotFound:
        return
    raise UsageError(
        f"--name {key.name}: namespace {key.namespace} has a RayJob of that name; choose another "
        f"name, or delete it: manta delete rayjob {key.name}"
    )


async def _with_image_of_cluster(client: Client, submission: Submission) -> Submission:
    """The submitter needs the same Ray version as the cluster: use the image of its head."""
    cluster = await _cluster(client, submission)
    image = ray_container_of(cluster.spec.head_group_spec.template).get("image", "")
    return replace(submission, image=image)


async def _cluster(client: Client, submission: Submission) -> RayCluster:
    try:
        return await client.get(
            RAY_CLUSTERS, Key(submission.namespace, submission.cluster), into=RayCluster
        )
    except NotFound:
        raise UsageError(
            f"--cluster {submission.cluster}: namespace {submission.namespace} has no such RayCluster; "
            "`manta get clusters` lists them"
        ) from None


async def _upload(client: Client, submission: Submission, package: Package) -> str:
    """Upload a package that is too large for one ConfigMap to the cluster. Returns its URI."""
    cluster = await _cluster(client, submission)
    target = await target_of(client, cluster)
    path = f"/api/packages/gcs/{package.name}"
    reply = await ProxyTransport(client, timeout=300).send(target, "PUT", path, package.data)
    if isinstance(reply, Unreachable):
        raise SubmitError(f"the package did not reach RayCluster {submission.cluster}: {reply.why}")
    if reply.status >= 300:
        text = reply.body[:300].decode("utf-8", "replace")
        raise SubmitError(f"Ray refused the package ({reply.status}): {text}")
    return f"gcs://{package.name}"


async def stop(client: Client, key: Key) -> str:
    """Stop the job in Ray; delete the RayJob if it does not run there.

    Returns what happened, in one line. Raises StopError if Ray does not confirm it.
    """
    try:
        job = await client.get(RAY_JOBS, key, into=RayJob)
    except NotFound:
        return f"rayjob/{key.name} does not exist"
    runs = job.status.job_status in ("PENDING", "RUNNING")
    target = await target_of_job(client, job) if runs else None
    if target is not None:
        answer = await Dashboard(ProxyTransport(client)).stop(target, job.status.job_id)
        if isinstance(answer, Accepted):
            return f"Ray stops the job; rayjob/{key.name} becomes Complete (STOPPED)"
        raise StopError(
            f"Ray did not confirm that it stops the job of rayjob/{key.name}: {answer.why}; to delete the "
            f"RayJob instead: manta delete rayjob {key.name} -n {key.namespace}"
        )
    await client.delete(RAY_JOBS, key, uid=job.metadata.uid)
    return f"rayjob/{key.name} and its cluster are deleted"
