"""The verbs of the Kubernetes API, async, over any Transport.

Promises: every error is one of `errors`; a write whose reply was lost is reported as unknown
and never repeated; reads are repeated a few times; nothing waits without a limit. Time, sleep
and chance come in through the constructor, or from the running loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from manta import __version__
from manta.api.meta import Key, ObjectMeta, View
from manta.api.resources import Resource
from manta.kube import codec, requests
from manta.kube.calling import Call, Caller, RequestObserver, unobserved
from manta.kube.errors import Gone, NotFound, Unreachable
from manta.kube.ratelimit import RateLimiter
from manta.kube.requests import PatchKind, Propagation
from manta.kube.retry import DEFAULT, RetryPolicy
from manta.kube.transport import Query, Request, Response, StreamResponse, Transport
from manta.kube.watch_stream import LineSplitter, WatchEvent, decode_event

__all__ = ["Client", "Listing", "PatchKind", "Propagation", "RequestObserver", "Written"]


class Written(View, frozen=True, kw_only=True):
    """What a writer needs of the answer: identity and version, whatever the kind."""

    metadata: ObjectMeta = ObjectMeta()


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=dict[str, Any])
    W = TypeVar("W", default=Written)
else:
    from typing import TypeVar

    T = TypeVar("T")
    W = TypeVar("W")

# Defaults of the `into` parameters: a plain object for reads, identity and version for writes.
_AS_DICT: Any = dict
_AS_WRITTEN: Any = Written

# Whoever needs only identity and version of what was written asks for no more: encoding a whole Pod
# is a good part of what its creation costs the API server.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


def _written_headers(content_type: str, into: Any) -> dict[str, str]:
    accept = {"accept": _METADATA_ONLY} if into is _AS_WRITTEN else {}
    return {"content-type": content_type, **accept}


# What comes through a proxy, or as a log, need not be JSON.
_ANY_TYPE = {"accept": "*/*"}

Body = Mapping[str, Any] | Sequence[Any] | bytes
FieldValidation = Literal["", "Strict", "Warn", "Ignore"]
"""What becomes of fields that the schema does not know; empty: the server's default, a warning."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: list[T] = field(default_factory=list)
    resource_version: str = ""
    """Where a watch can take over from this list."""


class Client:
    def __init__(  # noqa: PLR0913  # the things that are injected, each with a default
        self,
        transport: Transport,
        *,
        user_agent: str = f"manta/{__version__}",
        limiter: RateLimiter | None = None,
        observer: RequestObserver | None = None,
        retry: RetryPolicy = DEFAULT,
        timeout: float = 30.0,
        chance: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.transport = transport
        self._caller = Caller(
            transport,
            headers={"user-agent": user_agent, "accept": "application/json"},
            timeout=timeout,
            limiter=limiter,
            observer=observer or unobserved,
            retry=retry,
            chance=chance or random.Random(),  # noqa: S311  # spreads retries, guards nothing
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
        body = await self._ask("get", resource, Request("GET", path, query))
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
        """All of them, page by page. Pages that expire on the way cost one list in one piece."""
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
        self,
        resource: Resource,
        request: Request,
        into: type[T],
        queries: tuple[Query, Query, int],
    ) -> Listing[T]:
        first, selection, page_size = queries
        limit = requests.query_of(limit=page_size)
        page = await self._page(resource, request, into, first + limit)
        items = page.items or []
        while token := page.metadata.continue_token:
            # A continue token fixes the version: the server refuses it beside resourceVersion.
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
        body = await self._ask("list", resource, Request(request.method, request.path, query))
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

        Whoever leaves early closes it: `async with aclosing(client.watch(...)) as events`.
        Raises Gone when `resource_version` is too old, and Unreachable when the stream breaks or
        `read_timeout` seconds pass without a byte. Resuming is the caller's decision.
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
        async with self._caller.opened(call) as stream:
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
        """`subresource` is (name, subresource), for such as `pods/binding` and `pods/eviction`."""
        name, part = subresource or ("", "")
        request = Request(
            "POST",
            requests.path_of(resource, namespace, name, part),
            requests.write_query(
                dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
            ),
            _written_headers("application/json", into),
            codec.encode_body(body),
        )
        return codec.decode(await self._ask("create", resource, request), into, resource.kind)

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
        request = Request(
            "PUT",
            requests.object_path(resource, key, subresource),
            requests.write_query(
                dry_run=dry_run, field_manager=field_manager, field_validation=field_validation
            ),
            _written_headers("application/json", into),
            codec.encode_body(body),
        )
        answer = await self._ask("update", resource, request)
        return codec.decode(answer, into, f"{resource.kind} {key}")

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
        """`force` takes over fields from other managers: for `kind="apply"` only."""
        if kind == "apply" and not field_manager:
            raise ValueError(f"an apply patch of {resource.kind} {key} needs a field_manager")
        request = Request(
            "PATCH",
            requests.object_path(resource, key, subresource),
            requests.write_query(
                dry_run=dry_run,
                field_manager=field_manager,
                force=force,
                field_validation=field_validation,
            ),
            _written_headers(requests.PATCH_TYPES[kind], into),
            codec.encode_body(body),
        )
        answer = await self._ask("apply" if kind == "apply" else "patch", resource, request)
        return codec.decode(answer, into, f"{resource.kind} {key}")

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """True: accepted. False: it was gone already. Raises Conflict when `uid` is another's."""
        options = requests.delete_options(
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_seconds=grace_seconds,
        )
        request = Request(
            "DELETE",
            requests.object_path(resource, key),
            headers={"content-type": "application/json"},
            body=codec.encode(options),
        )
        try:
            await self._ask("delete", resource, request)
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
        if resource.namespaced and not namespace:
            raise ValueError(f"no namespace given to delete {resource.group_resource} from")
        options = requests.delete_options(
            uid=None, resource_version=None, propagation=propagation, grace_seconds=None
        )
        request = Request(
            "DELETE",
            requests.path_of(resource, namespace),
            requests.query_of(labelSelector=labels, fieldSelector=fields),
            {"content-type": "application/json"},
            codec.encode(options),
        )
        await self._ask("deletecollection", resource, request)

    # ── anything else ────────────────────────────────────────────────────────────────────
    async def send(  # noqa: PLR0913  # the parts of a request
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # handed on, not implemented here
        check: bool = True,
        limit: int | None = None,
    ) -> Response:
        """One raw request. With `check=False` every answer is returned, whatever its status.

        That is for services/proxy: what comes back is then the service's word, not the server's.
        """
        request = Request(method, path, query, _headers(headers), body, limit=limit)
        call = Call(method.lower(), "", request, timeout)
        return await (self._caller.ask(call) if check else self._caller.ask_once(call))

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query = (), headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[StreamResponse]:
        """A body that goes on, such as a followed log. Read it with `.chunks()`."""
        request = Request("GET", path, query, _headers(headers))
        async with self._caller.opened(Call("get", "", request)) as stream:
            yield stream

    async def _ask(self, verb: str, resource: Resource, request: Request) -> bytes:
        return (await self._caller.ask(Call(verb, resource.group_resource, request))).body


class _Expired(Gone):
    """A continue token ran out between two pages."""


async def _never_silent(
    chunks: AsyncIterator[bytes], read_timeout: float, what: str
) -> AsyncIterator[bytes]:
    """Silence beyond `read_timeout` seconds is a loss."""
    while True:
        try:
            async with asyncio.timeout(read_timeout):
                chunk = await anext(chunks, None)
        except TimeoutError as error:
            raise Unreachable(f"{what}: silent for {read_timeout:g} s", sent=True) from error
        if chunk is None:
            return
        yield chunk


def _headers(given: Mapping[str, str] | None) -> dict[str, str]:
    """In lower case, as ours are: the same header twice would leave the choice to the server."""
    return _ANY_TYPE | {name.lower(): value for name, value in (given or {}).items()}
