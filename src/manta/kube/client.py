"""The verbs of the Kubernetes API, async, over any Transport.

All methods raise the errors of `errors` only. Reads are retried a few times. A write whose response was lost
raises an error with `unknown` set and is not retried. Every request has a timeout.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from manta import __version__
from manta.api.meta import Key, Object
from manta.api.resources import Resource
from manta.kube import codec, requests
from manta.kube.errors import Gone, NotFound, Unreachable
from manta.kube.rate_limiter import RateLimiter
from manta.kube.request_executor import Call, RequestExecutor, RequestObserver, unobserved
from manta.kube.requests import PatchKind, Propagation
from manta.kube.retry import DEFAULT, RetryPolicy
from manta.kube.transport import Query, Request, Response, StreamResponse, Transport
from manta.kube.watch_stream import LineSplitter, WatchEvent, decode_event

__all__ = ["Client", "Listing", "PatchKind", "Propagation", "RequestObserver"]


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=dict[str, Any])
    W = TypeVar("W", default=Object)
else:
    from typing import TypeVar

    T = TypeVar("T")
    W = TypeVar("W")

# Defaults of the `into` parameters: a dict for reads; only the metadata for writes.
_AS_DICT: Any = dict
_AS_WRITTEN: Any = Object

# Encoding the whole Pod is a good part of what its creation costs the API server: ask for no more than
# the metadata where the caller needs no more.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


# Proxied responses and logs need not be JSON.
_ANY_TYPE = {"accept": "*/*"}

Body = Mapping[str, Any] | Sequence[Any] | bytes
_JSON = "application/json"
DEFAULT_TIMEOUT = 30.0
"""Seconds for one request."""
FieldValidation = Literal["", "Strict", "Warn", "Ignore"]
"""How the server treats unknown fields; empty: its default, a warning."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: list[T] = field(default_factory=list)
    resource_version: str = ""
    """Where a watch continues after this list."""


class Client:
    def __init__(  # noqa: PLR0913  # dependencies, each with a default
        self,
        transport: Transport,
        *,
        user_agent: str = f"manta/{__version__}",
        limiter: RateLimiter | None = None,
        observer: RequestObserver | None = None,
        retry: RetryPolicy = DEFAULT,
        timeout: float = DEFAULT_TIMEOUT,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.transport = transport
        self._executor = RequestExecutor(
            transport,
            headers={"user-agent": user_agent, "accept": _JSON},
            timeout=timeout,
            limiter=limiter,
            observer=observer or unobserved,
            retry=retry,
            rng=rng or random.Random(),  # noqa: S311  # jitter of retries
            sleep=sleep,
        )

    async def close(self) -> None:
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ── reads ────────────────────────────────────────────────────────────────────────────
    async def get(
        self,
        resource: Resource,
        key: Key,
        *,
        into: type[T] = _AS_DICT,
        subresource: str = "",
        resource_version: str = "",
    ) -> T:
        path = requests.object_path(resource, key, subresource)
        query = requests.query_of(resourceVersion=resource_version)
        body = await self._execute("get", resource, Request("GET", path, query))
        return codec.decode(body, into, f"{resource.kind} {key}")

    async def list(  # noqa: PLR0913  # the query parameters of the API
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T] = _AS_DICT,
        labels: str = "",
        fields: str = "",
        page_size: int = 500,
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Listing[T]:
        """All objects, page by page. If a continue token expires, the list is requested again unpaged."""
        selection = requests.query_of(labelSelector=labels, fieldSelector=fields)
        first = selection + requests.query_of(
            resourceVersion=resource_version, resourceVersionMatch=resource_version_match
        )
        paged = Request("GET", requests.path_of(resource, namespace))
        try:
            return await self._pages(resource, paged, into, (first, selection, page_size))
        except _Expired:
            return await self._pages(resource, paged, into, (first, selection, 0))

    async def _pages(
        self, resource: Resource, request: Request, into: type[T], queries: tuple[Query, Query, int]
    ) -> Listing[T]:
        first, selection, page_size = queries
        limit = requests.query_of(limit=page_size)
        page = await self._page(resource, request, into, first + limit)
        items = page.items or []
        while token := page.metadata.continue_token:
            # A continue token implies the version: the server refuses resourceVersion beside it.
            query = selection + limit + (("continue", token),)
            try:
                page = await self._page(resource, request, into, query)
            except Gone as error:
                raise _Expired(error.status, error.reason, error.message) from error
            items += page.items or []
        return Listing(items, page.metadata.resource_version)

    async def _page(
        self, resource: Resource, request: Request, into: type[T], query: Query
    ) -> codec.Page[T]:
        body = await self._execute("list", resource, Request(request.method, request.path, query))
        return codec.decode_page(body, into, f"list of {resource.group_resource}")

    async def watch(  # noqa: PLR0913  # the query parameters of the API
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T] = _AS_DICT,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        timeout_seconds: int = 300,
        read_timeout: float | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Events until the server ends the stream, which it does after `timeout_seconds`.

        To leave early, close it: `async with aclosing(client.watch(...)) as events`. Raises Gone when
        `resource_version` is too old, and Unreachable when the stream breaks or `read_timeout` seconds pass
        without data. The caller decides whether to resume.
        """
        query = requests.watch_query(
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            initial_events=initial_events,
            timeout_seconds=timeout_seconds,
        )
        what = resource.group_resource
        call = Call("watch", what, Request("GET", requests.path_of(resource, namespace), query))
        splitter = LineSplitter()
        async with self._executor.open_stream(call) as stream:
            chunks = stream.chunks()
            if read_timeout is not None:
                chunks = _never_silent(chunks, read_timeout, f"watch of {what}")
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    yield decode_event(line, into, what)
        if splitter.cut_off:
            raise Unreachable(f"watch of {what}: the stream ended inside an event", sent=True)

    # ── writes ───────────────────────────────────────────────────────────────────────────
    async def create(  # noqa: PLR0913  # the query parameters of the API
        self,
        resource: Resource,
        namespace: str,
        body: Body,
        *,
        into: type[W] = _AS_WRITTEN,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation = "",
        subresource: tuple[str, str] | None = None,
    ) -> W:
        """Create an object. `subresource` is (name, subresource), as for pods/binding and pods/eviction."""
        name, part = subresource or ("", "")
        query = requests.write_query(
            dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
        )
        path = requests.path_of(resource, namespace, name, part)
        request = _write("POST", path, query, body, into)
        return codec.decode(await self._execute("create", resource, request), into, resource.kind)

    async def replace(  # noqa: PLR0913  # the query parameters of the API
        self,
        resource: Resource,
        key: Key,
        body: Body,
        *,
        subresource: str = "",
        into: type[W] = _AS_WRITTEN,
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation = "",
    ) -> W:
        """Replace an object."""
        query = requests.write_query(
            dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
        )
        path = requests.object_path(resource, key, subresource)
        response = await self._execute("update", resource, _write("PUT", path, query, body, into))
        return codec.decode(response, into, f"{resource.kind} {key}")

    async def patch(  # noqa: PLR0913  # the query parameters of the API
        self,
        resource: Resource,
        key: Key,
        body: Body,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        into: type[W] = _AS_WRITTEN,
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> W:
        """Patch an object. `force` takes over fields of other managers; only for `kind="apply"`.

        Raises ValueError for an apply patch without `field_manager`.
        """
        if kind == "apply" and not field_manager:
            raise ValueError(f"an apply patch of {resource.kind} {key} needs a field_manager")
        query = requests.write_query(
            dry_run=dry_run,
            field_manager=field_manager,
            force=force,
            field_validation=field_validation,
        )
        path = requests.object_path(resource, key, subresource)
        request = _write("PATCH", path, query, body, into, requests.PATCH_TYPES[kind])
        verb = "apply" if kind == "apply" else "patch"
        response = await self._execute(verb, resource, request)
        return codec.decode(response, into, f"{resource.kind} {key}")

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> bool:
        """Whether the object existed. Raises Conflict when it has another `uid`."""
        options = requests.delete_options(
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_seconds=grace_seconds,
            dry_run=dry_run,
        )
        request = Request(
            "DELETE",
            requests.object_path(resource, key),
            headers={"content-type": _JSON},
            body=codec.encode(options),
        )
        try:
            await self._execute("delete", resource, request)
        except NotFound:
            return False
        return True

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str,
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation = "Background",
    ) -> None:
        """Delete all objects that the selectors match. Raises ValueError if the namespace is missing."""
        if resource.namespaced and not namespace:
            raise ValueError(f"no namespace given to delete {resource.group_resource} from")
        options = requests.delete_options(
            uid=None, resource_version=None, propagation=propagation, grace_seconds=None
        )
        request = Request(
            "DELETE",
            requests.path_of(resource, namespace),
            requests.query_of(labelSelector=labels, fieldSelector=fields),
            {"content-type": _JSON},
            codec.encode(options),
        )
        await self._execute("deletecollection", resource, request)

    # ── other requests ───────────────────────────────────────────────────────────────────
    async def send(  # noqa: PLR0913  # the parts of a request
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # passed to the transport
        check: bool = True,
        limit: int | None = None,
    ) -> Response:
        """Send one raw request. With `check=False`, error responses are returned instead of raised, and
        nothing is retried: for services/proxy, where the service answers and not the API server."""
        request = Request(method, path, query, _headers(headers), body, limit=limit)
        call = Call(method.lower(), "", request, timeout)
        return await (self._executor.execute(call) if check else self._executor.execute_once(call))

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[StreamResponse]:
        """A response whose body is read with `.chunks()`, such as a followed log."""
        request = Request("GET", path, query, _headers(headers))
        async with self._executor.open_stream(Call("get", "", request)) as stream:
            yield stream

    async def _execute(self, verb: str, resource: Resource, request: Request) -> bytes:
        return (await self._executor.execute(Call(verb, resource.group_resource, request))).body


def _write(
    method: str, path: str, query: Query, body: Body, into: Any, content_type: str = _JSON
) -> Request:
    accept = {"accept": _METADATA_ONLY} if into is _AS_WRITTEN else {}
    headers = {"content-type": content_type, **accept}
    return Request(method, path, query, headers, codec.encode_body(body))


class _Expired(Gone):
    """A continue token expired between two pages."""


async def _never_silent(
    chunks: AsyncIterator[bytes], read_timeout: float, what: str
) -> AsyncIterator[bytes]:
    """The chunks. Raises Unreachable when none comes for `read_timeout` seconds."""
    while True:
        try:
            async with asyncio.timeout(read_timeout):
                chunk = await anext(chunks, None)
        except TimeoutError as error:
            raise Unreachable(f"{what}: no data for {read_timeout:g} s", sent=True) from error
        if chunk is None:
            return
        yield chunk


def _headers(given: Mapping[str, str] | None) -> dict[str, str]:
    """The headers in lower case, so that each occurs once."""
    return _ANY_TYPE | {name.lower(): value for name, value in (given or {}).items()}
