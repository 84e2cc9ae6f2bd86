"""`manta.AsyncClient`: the four Ray kinds for asyncio programs."""

from __future__ import annotations

from typing import Self

from manta.kube.client import Client as KubeClient
from manta.sdk.async_clusters import AsyncClusters
from manta.sdk.async_cron_jobs import AsyncCronJobs
from manta.sdk.async_jobs import AsyncJobs
from manta.sdk.async_services import AsyncServices
from manta.sdk.session import AnyPath, Session, choose_cluster, open_session


class AsyncClient:
    """Ray on a Kubernetes API server, for asyncio programs.

    Without arguments it connects as kubectl does: KUBECONFIG, `~/.kube/config`, the service account of
    this Pod; and if none of these exists, to the plane of `manta up`.
    """

    clusters: AsyncClusters
    """RayClusters."""
    jobs: AsyncJobs
    """RayJobs."""
    services: AsyncServices
    """RayServices."""
    cron_jobs: AsyncCronJobs
    """RayCronJobs."""

    def __init__(  # noqa: PLR0913  # the ways to name a server
        self,
        *,
        namespace: str | None = None,
        kubeconfig: AnyPath | None = None,
        context: str | None = None,
        server: str | None = None,
        token: str | None = None,
        ca: AnyPath | bytes | None = None,
        insecure: bool = False,
        plane: AnyPath | None = None,
        cleanup: bool = False,
    ) -> None:
        """Choose the server; nothing is sent yet. Raises NoServerError, InvalidValue, CredentialsError.

        `namespace`: default that of the context. `kubeconfig`, `context`: as kubectl's flags. `server`,
        `token`, `ca` (a file, or PEM as bytes), `insecure`: without a kubeconfig; a `token` alone replaces
        the user of the kubeconfig. `plane`: the directory of a `manta up --dir`. `cleanup`: delete what
        this client made when it is closed.
        """
        cluster = choose_cluster(
            kubeconfig=kubeconfig,
            context=context,
            server=server,
            token=token,
            ca=ca,
            insecure=insecure,
            plane=plane,
        )
        self._attach(open_session(cluster, namespace, cleanup=cleanup))

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
