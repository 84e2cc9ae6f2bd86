"""RayClusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, Unpack, overload

from manta.api.ray.cluster import RayCluster, RayClusterStatus
from manta.sdk.async_clusters import AsyncCluster, AsyncClusters, cluster_is_ready
from manta.sdk.async_objects import TIMEOUT
from manta.sdk.jobs import Job
from manta.sdk.objects import Collection, Object
from manta.sdk.options import ClusterOptions, SubmitOptions
from manta.sdk.progress import Progress


class Cluster(Object[RayCluster, AsyncCluster]):
    """A RayCluster. `with cluster:` deletes it at the end."""

    @property
    def status(self) -> RayClusterStatus:
        """The status, as it was last read."""
        return self._core.status

    def wait_ready(self, *, timeout: float | None = TIMEOUT, progress: Progress = None) -> Self:
        """Wait until the head and all workers are ready. Raises WaitTimeout, WaitFailed and Deleted."""
        self._shown(self._core.reasons(cluster_is_ready, timeout, "ready"), progress)
        return self

    def submit(self, command: str | Sequence[str], **options: Unpack[SubmitOptions]) -> Job:
        """Run a command as a RayJob on this cluster (arguments: `SubmitOptions`).

        Raises InvalidValue and AlreadyExists.
        """
        return Job(self._loop, self._loop.run(self._core.submit(command, **options)))

    def scale(self, replicas: int, group: str = "") -> Self:
        """Change the number of workers; name the group if there are several. Raises InvalidValue.

        Without an autoscaler, the group's bounds are widened to the number.
        """
        return self._done(self._core.scale(replicas, group))


class Clusters(Collection[RayCluster, Cluster, AsyncClusters]):
    """All RayClusters."""

    handle: ClassVar[type[Object[Any, Any]]] = Cluster

    @overload
    def create(self, manifest: RayCluster | Mapping[str, Any] | str, /) -> Cluster: ...

    @overload
    def create(self, /, **options: Unpack[ClusterOptions]) -> Cluster: ...

    def create(
        self, manifest: RayCluster | Mapping[str, Any] | str | None = None, /, **options: Any
    ) -> Cluster:
        """Create a RayCluster from arguments (`ClusterOptions`) or from a manifest.

        Raises InvalidValue and AlreadyExists.
        """
        return self._handle(self._loop.run(self._core.create_from(manifest, options)))
