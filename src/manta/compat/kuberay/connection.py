"""What `RayClusterApi` and `RayjobApi` share: requests whose errors are logged, and waits."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from functools import cached_property
from typing import Any, TypeVar

from manta.api.meta import Key
from manta.api.ray.manifest import Document
from manta.api.resources import Resource
from manta.client.watch import watch_object
from manta.kube.client import Client as KubeClient
from manta.kube.errors import MantaError, NotFound
from manta.kube.transport import HttpTransport
from manta.sdk.loop_thread import LoopThread
from manta.sdk.session import choose_cluster

T = TypeVar("T")
log = logging.getLogger("manta.compat.kuberay")


class AsyncResult:
    """What `async_req=True` gives: `get()` waits for the answer."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def ready(self) -> bool:
        """Whether the answer is there."""
        return self._future.done()

    def get(self, timeout: float | None = None) -> Any:
        """The answer. Raises TimeoutError."""
        return self._future.result(timeout)


class Connection:
    """Requests for one kind. Each error of the API server is logged and becomes None."""

    resource: Resource

    def __init__(self) -> None:
        """Connect as `manta.Client()` does. Raises NoServerError and CredentialsError."""
        self._loop = LoopThread()
        self._kube = KubeClient(HttpTransport(choose_cluster()))
        weakref.finalize(self, _close, self._loop, self._kube)

    @cached_property
    def api(self) -> Any:
        """`CustomObjectsApi` of the `kubernetes` package, if it is installed. Raises ImportError."""
        return official_client("CustomObjectsApi")

    def _answer(self, what: str, work: Coroutine[Any, Any, T]) -> T | None:
        return self._loop.run(_logged(what, work))

    def _later(self, what: str, work: Coroutine[Any, Any, T]) -> AsyncResult:
        return AsyncResult(self._loop.start(_logged(what, work)))

    async def _list(self, namespace: str, labels: str = "") -> Document:
        query = (("labelSelector", labels),) if labels else ()
        return await self._sent("GET", self.resource.path(namespace), query)

    async def _delete(self, name: str, namespace: str) -> Document:
        return await self._sent("DELETE", self.resource.path(namespace, name))

    async def _sent(
        self, method: str, path: str, query: tuple[tuple[str, str], ...] = ()
    ) -> Document:
        import msgspec

        answer: Document = msgspec.json.decode(
            (await self._kube.send(method, path, query=query)).body
        )
        return answer

    async def _get(self, name: str, namespace: str) -> Document:
        return await self._kube.get(self.resource, Key(namespace, name))

    async def _create(self, body: Mapping[str, Any], namespace: str) -> Document:
        return await self._kube.create(self.resource, namespace, body, into=dict)

    async def _patch(self, name: str, body: Mapping[str, Any], namespace: str) -> Document:
        return await self._kube.patch(self.resource, Key(namespace, name), body, into=dict)

    async def _status_when(
        self, name: str, namespace: str, seconds: float, condition: Callable[[Document], bool]
    ) -> Document | None:
        """The first status of which the condition is true; None when the time is over.

        Raises NotFound if the object does not exist, or is deleted meanwhile.
        """
        watch = watch_object(self._kube, self.resource, Key(namespace, name))
        try:
            async with asyncio.timeout(seconds), aclosing(watch) as changes:
                async for document in changes:
                    if document is None:
                        await self._get(name, namespace)  # NotFound with the server's message
                        return None
                    status: Document = document.get("status") or {}
                    if status and condition(status):
                        return status
        except TimeoutError:
            log.info("%s %s: timed out after %g s", self.resource.kind, name, seconds)
        return None


def _close(loop: LoopThread, kube: KubeClient) -> None:
    """KubeRay's classes have no `close`: the connection ends with them, or with the program."""
    if not loop.is_current():
        loop.run(kube.close())
    loop.close()


async def _logged(what: str, work: Coroutine[Any, Any, T]) -> T | None:
    try:
        return await work
    except NotFound as error:
        log.error("%s: not found: %s", what, str(error))  # noqa: TRY400  # as KubeRay's: no traceback
    except MantaError as error:
        log.error("%s: %s", what, str(error))  # noqa: TRY400
    return None


def official_client(kind: str) -> Any:
    """A client of the `kubernetes` package, connected in the same way. Raises ImportError."""
    try:
        from kubernetes import client
        from kubernetes import config as untyped
    except ImportError as error:
        raise ImportError(f"{kind} is of the kubernetes package: pip install kubernetes") from error
    config: Any = untyped
    try:
        config.load_kube_config()
    except config.ConfigException:
        config.load_incluster_config()
    return getattr(client, kind)()
