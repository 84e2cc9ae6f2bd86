"""RayClusters, asynchronously."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, Unpack, overload

from manta.api.ray.cluster import RayCluster, RayClusterStatus
from manta.api.ray.manifest import Document, Manifest
from manta.api.usage import InvalidValue
from manta.client.readiness import judge
from manta.client.scaling import scale_group
from manta.client.workload_readiness import Verdict
from manta.sdk.async_jobs import AsyncJob, AsyncJobs
from manta.sdk.async_objects import TIMEOUT, AsyncCollection, AsyncObject
from manta.sdk.builders import build_cluster
from manta.sdk.errors import as_invalid_value
from manta.sdk.options import ClusterOptions, SubmitOptions
from manta.sdk.progress import Progress


class AsyncCluster(AsyncObject[RayCluster]):
    """A RayCluster. `async with cluster:` deletes it at the end."""

    kind: ClassVar[type[Manifest]] = RayCluster

    @property
    def status(self) -> RayClusterStatus:
        """The status, as it was last read."""
        return self.object.status

    async def wait_ready(
        self, *, timeout: float | None = TIMEOUT, progress: Progress = None
    ) -> Self:
        """Wait until the head and all workers are ready. Raises WaitTimeout, WaitFailed and Deleted."""
        await self._wait(cluster_is_ready, timeout, "ready", progress)
        return self

    async def submit(
        self, command: str | Sequence[str], **options: Unpack[SubmitOptions]
    ) -> AsyncJob:
        """Run a command as a RayJob on this cluster (arguments: `SubmitOptions`).

        Raises InvalidValue and AlreadyExists.
        """
        where = {**options, "namespace": self.namespace}
        return await AsyncJobs(self._session).submit_to(self.name, command, where)

    async def scale(self, replicas: int, group: str = "") -> Self:
        """Change the number of workers; name the group if there are several. Raises InvalidValue.

        Without an autoscaler, the group's bounds are widened to the number.
        """
        if replicas < 0:
            raise InvalidValue("replicas", replicas, "must be 0 or more")
        with as_invalid_value("group", group):
            await scale_group(self._session.kube, self._key, group, replicas, widen=True)
        return await self.refresh()

    def _columns(self) -> dict[str, str]:
        status = self.status
        workers = f"{status.ready_worker_replicas} of {status.desired_worker_replicas}"
        return {
            "STATE": status.state or "pending",
            "READY WORKERS": workers,
            "CPU": str(status.desired_cpu),
            "MEMORY": str(status.desired_memory),
            "GPU": str(status.desired_gpu),
            "HEAD": status.head.pod_name,
            "WAITS FOR": self._waits_for(),
        }


def cluster_is_ready(document: Document) -> Verdict:
    """Whether a RayCluster is ready; if not, why."""
    return judge("RayCluster", document)


class AsyncClusters(AsyncCollection[RayCluster, AsyncCluster]):
    """All RayClusters."""

    handle: ClassVar[type[AsyncObject[Any]]] = AsyncCluster
    _build = staticmethod(build_cluster)

    @overload
    async def create(self, manifest: RayCluster | Mapping[str, Any] | str, /) -> AsyncCluster: ...

    @overload
    async def create(self, /, **options: Unpack[ClusterOptions]) -> AsyncCluster: ...

    async def create(
        self, manifest: RayCluster | Mapping[str, Any] | str | None = None, /, **options: Any
    ) -> AsyncCluster:
        """Create a RayCluster from arguments (`ClusterOptions`) or from a manifest.

        Raises InvalidValue and AlreadyExists.
        """
        return await self.create_from(manifest, options)
