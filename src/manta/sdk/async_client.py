"""`manta.AsyncClient`: the four Ray kinds for asyncio programs."""

from __future__ import annotations

from typing import Self, Unpack

from manta.kube.client import Client as KubeClient
from manta.sdk.async_clusters import AsyncClusters
from manta.sdk.async_cron_jobs import AsyncCronJobs
from manta.sdk.async_jobs import AsyncJobs
from manta.sdk.async_services import AsyncServices
from manta.sdk.options import ServerOptions
from manta.sdk.session import Session, choose_cluster, open_session


class AsyncClient:
    """Ray on a Kubernetes API server, for asyncio programs.

    Without arguments it connects as kubectl does; if nothing is configured, to the plane of `manta up`.
    """

    clusters: AsyncClusters
    """RayClusters."""
    jobs: AsyncJobs
    """RayJobs."""
    services: AsyncServices
    """RayServices."""
    cron_jobs: AsyncCronJobs
    """RayCronJobs."""

    def __init__(
        self,
        *,
        namespace: str | None = None,
        cleanup: bool = False,
        **server: Unpack[ServerOptions],
    ) -> None:
        """Choose the server; nothing is sent yet. Raises NoServerError, InvalidValue, CredentialsError.

        `namespace`: default that of the context. `cleanup`: delete what this client made when it is
        closed. The server: `ServerOptions`.
        """
        self._attach(open_session(choose_cluster(**server), namespace, cleanup=cleanup))

    @classmethod
    def from_kube(
        cls, kube: KubeClient, namespace: str = "default", *, cleanup: bool = False
    ) -> Self:
        """A client over a connection that is open already; `close` closes it."""
        made = cls.__new__(cls)
        made._attach(Session(kube, namespace, cleanup=cleanup))  # noqa: SLF001  # of this class
        return made

    def _attach(self, session: Session) -> None:
        self._session = session
        self.clusters = AsyncClusters(session)
        self.jobs = AsyncJobs(session)
        self.services = AsyncServices(session)
        self.cron_jobs = AsyncCronJobs(session)

    @property
    def namespace(self) -> str:
        """The namespace of objects for which none is given."""
        return self._session.namespace

    async def close(self) -> None:
        """Close the connection; with `cleanup`, delete what this client made first, newest first."""
        try:
            while self._session.made:
                await self._session.made.pop().delete()
        finally:
            await self._session.kube.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
