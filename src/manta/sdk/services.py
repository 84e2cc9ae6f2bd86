"""RayServices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, Unpack, overload

from manta.api.ray.service import RayService, RayServiceStatuses
from manta.sdk.async_objects import TIMEOUT
from manta.sdk.async_services import AsyncService, AsyncServices, service_is_ready
from manta.sdk.objects import Collection, Object
from manta.sdk.options import ServiceOptions
from manta.sdk.progress import Progress


class Service(Object[RayService, AsyncService]):
    """A RayService. `with service:` deletes it at the end."""

    @property
    def status(self) -> RayServiceStatuses:
        """The status, as it was last read."""
        return self._core.status

    @property
    def url(self) -> str:
        """Where Pods of the Kubernetes cluster reach the applications."""
        return self._core.url

    def wait_ready(self, *, timeout: float | None = TIMEOUT, progress: Progress = None) -> Self:
        """Wait until the service answers requests with its current spec.

        Raises WaitTimeout, WaitFailed and Deleted.
        """
        self._shown(self._core.reasons(service_is_ready, timeout, "ready"), progress)
        return self

    def update(self, *, serve_config: Mapping[str, Any] | str) -> Self:
        """Give the applications another config. `wait_ready` then waits for the operator to see it."""
        return self._done(self._core.update(serve_config=serve_config))


class Services(Collection[RayService, Service, AsyncServices]):
    """All RayServices."""

    handle: ClassVar[type[Object[Any, Any]]] = Service

    @overload
    def create(self, manifest: RayService | Mapping[str, Any] | str, /) -> Service: ...

    @overload
    def create(self, /, **options: Unpack[ServiceOptions]) -> Service: ...

    def create(
        self, manifest: RayService | Mapping[str, Any] | str | None = None, /, **options: Any
    ) -> Service:
        """Create a RayService from arguments (`ServiceOptions`) or from a manifest.

        Raises InvalidValue and AlreadyExists.
        """
        return self._handle(self._loop.run(self._core.create_from(manifest, options)))
