"""`manta.Client`: the four Ray kinds for ordinary programs and notebooks."""

from __future__ import annotations

from typing import Self, Unpack

from manta.sdk.async_client import AsyncClient
from manta.sdk.clusters import Clusters
from manta.sdk.cron_jobs import CronJobs
from manta.sdk.jobs import Jobs
from manta.sdk.loop_thread import LoopThread
from manta.sdk.options import ServerOptions
from manta.sdk.services import Services


class Client:
    """Ray on a Kubernetes API server.

    Without arguments it connects as kubectl does; if nothing is configured, to the plane of `manta up`.

    Requests run in a thread of their own, so it also works where an event loop runs, as in Jupyter.
    """

    clusters: Clusters
    """RayClusters."""
    jobs: Jobs
    """RayJobs."""
    services: Services
    """RayServices."""
    cron_jobs: CronJobs
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
        self._attach(LoopThread(), AsyncClient(namespace=namespace, cleanup=cleanup, **server))

    @classmethod
    def from_async(cls, core: AsyncClient, loop: LoopThread) -> Self:
        """A client over an asynchronous one whose connection belongs to this loop."""
        made = cls.__new__(cls)
        made._attach(loop, core)  # noqa: SLF001  # of this class
        return made

    def _attach(self, loop: LoopThread, core: AsyncClient) -> None:
        self._loop, self._core = loop, core
        self.clusters = Clusters(loop, core.clusters)
        self.jobs = Jobs(loop, core.jobs)
        self.services = Services(loop, core.services)
        self.cron_jobs = CronJobs(loop, core.cron_jobs)

    @property
    def namespace(self) -> str:
        """The namespace of objects for which none is given."""
        return self._core.namespace

    def close(self) -> None:
        """Close the connection; with `cleanup`, delete what this client made first, newest first."""
        if self._loop.closed:
            return
        try:
            self._loop.run(self._core.close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
