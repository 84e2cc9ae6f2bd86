"""RayServices, asynchronously."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self, Unpack, overload

from manta.api.ray.manifest import Document, Manifest
from manta.api.ray.service import RayService, RayServiceStatuses
from manta.client.readiness import judge
from manta.client.workload_readiness import Verdict
from manta.sdk.async_objects import TIMEOUT, AsyncCollection, AsyncObject
from manta.sdk.builders import build_service, serve_config_text
from manta.sdk.options import ServiceOptions
from manta.sdk.progress import Progress

SERVE_PORT: Final = 8000


class AsyncService(AsyncObject[RayService]):
    """A RayService. `async with service:` deletes it at the end."""

    kind: ClassVar[type[Manifest]] = RayService

    @property
    def status(self) -> RayServiceStatuses:
        """The status, as it was last read."""
        return self.object.status

    @property
    def url(self) -> str:
        """Where Pods of the Kubernetes cluster reach the applications."""
        return f"http://{self.name}-serve-svc.{self.namespace}.svc:{SERVE_PORT}"

    async def wait_ready(
        self, *, timeout: float | None = TIMEOUT, progress: Progress = None
    ) -> Self:
        """Wait until the service answers requests with its current spec.

        Raises WaitTimeout, WaitFailed and Deleted.
        """
        await self._wait(service_is_ready, timeout, "ready", progress)
        return self

    async def update(self, *, serve_config: Mapping[str, Any] | str) -> Self:
        """Give the applications another config. `wait_ready` then waits for the operator to see it."""
        return await self.patch({"spec": {"serveConfigV2": serve_config_text(serve_config)}})

    def _columns(self) -> dict[str, str]:
        active = self.status.active_service_status
        apps = active.application_statuses.items()
        return {
            "STATUS": self.status.service_status or "pending",
            "ENDPOINTS": str(self.status.num_serve_endpoints),
            "CLUSTER": active.ray_cluster_name,
            "NEXT CLUSTER": self.status.pending_service_status.ray_cluster_name,
            "APPLICATIONS": ", ".join(f"{name} {app.status}" for name, app in apps),
            "WAITS FOR": self._waits_for(),
        }


def service_is_ready(document: Document) -> Verdict:
    """Whether a RayService is ready with its current spec; if not, why."""
    generation = document["metadata"].get("generation", 0)
    observed = (document.get("status") or {}).get("observedGeneration", generation)
    if observed < generation:
        return Verdict(ready=False, why="waiting for the first reconcile of this generation")
    return judge("RayService", document)


class AsyncServices(AsyncCollection[RayService, AsyncService]):
    """All RayServices."""

    handle: ClassVar[type[AsyncObject[Any]]] = AsyncService
    _build = staticmethod(build_service)

    @overload
    async def create(self, manifest: RayService | Mapping[str, Any] | str, /) -> AsyncService: ...

    @overload
    async def create(self, /, **options: Unpack[ServiceOptions]) -> AsyncService: ...

    async def create(
        self, manifest: RayService | Mapping[str, Any] | str | None = None, /, **options: Any
    ) -> AsyncService:
        """Create a RayService from arguments (`ServiceOptions`) or from a manifest.

        Raises InvalidValue and AlreadyExists.
        """
        return await self.create_from(manifest, options)
