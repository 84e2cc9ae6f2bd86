"""The API server, independent of sockets: a request in, a response out.

`App.handle` is called by the HTTP server and by clients in the same process.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from manta.httpserver.handler import Handler
from manta.httpserver.messages import (
    HttpError,
    HttpRequest,
    HttpResponse,
    User,
    json_response,
    text_response,
)
from manta.httpserver.upgrade import UpgradedConnection
from manta.localplane.apiserver.admission import Admission
from manta.localplane.apiserver.admission_context import SERVICE_NETWORK, AdmissionContext
from manta.localplane.apiserver.auth.authenticator import Authenticator
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.impersonation import impersonated
from manta.localplane.apiserver.auth.reviews import Reviews
from manta.localplane.apiserver.auth.rules import Attributes
from manta.localplane.apiserver.auth.tokens import Tokens
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.definitions import load_definitions, revert_definition
from manta.localplane.apiserver.discovery import Discovery
from manta.localplane.apiserver.handlers.resources import ResourceHandlers
from manta.localplane.apiserver.negotiation import PLAIN, negotiate
from manta.localplane.apiserver.openapi_routes import OpenApi
from manta.localplane.apiserver.registry import Registry
from manta.localplane.apiserver.resource_store import ResourceStore
from manta.localplane.apiserver.routes import VERBS, Route, parse_route
from manta.localplane.apiserver.status_errors import (
    StatusError,
    from_http_error,
    internal,
    method_not_allowed,
    no_such_resource,
)
from manta.localplane.apiserver.streaming.connector import NodeConnector
from manta.localplane.apiserver.streaming.streams import Streams
from manta.localplane.apiserver.telemetry import Telemetry
from manta.localplane.store.store import Store, StoreFailed
from manta.localplane.waking import Wake

log = logging.getLogger(__name__)

VERSION: Mapping[str, str] = {
    "major": "1",
    "minor": "35",
    "emulationMajor": "1",
    "emulationMinor": "35",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "34",
    "gitVersion": "v1.35.0+manta",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}


class App(Handler):
    default_headers = (("Cache-Control", "no-cache, private"),)

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime],
        random: randomness.Random | None = None,
        demand_accounts: bool = False,
        static_tokens: Mapping[str, User] | None = None,
        token_key: Path | None = None,
        services: IPv4Network = SERVICE_NETWORK,
    ) -> None:
        self.core = Core(store, Registry(), clock, random or randomness.SystemRandom())
        self.tokens = Tokens(token_key, store, clock) if token_key is not None else None
        self.authenticator = Authenticator(static_tokens or {}, self.tokens)
        self.authorizer = Authorizer(store)
        self.admission = Admission(self.core, self.authorizer, demand_accounts=demand_accounts)
        self.services = services
        context = AdmissionContext(self.core, demand_accounts=demand_accounts, network=services)
        self._resources = ResourceStore(self.core, self.admission, context)
        self._handlers = ResourceHandlers(
            self.core, self._resources, self.admission, self.authorizer, self.tokens
        )
        self._reviews = Reviews(self.core, self.authorizer, self.authenticator, self.tokens)
        self._discovery = Discovery(self.core.registry)
        self._openapi = OpenApi(self.core.registry, VERSION["gitVersion"])
        self._streams = Streams(self.core)
        self.telemetry = Telemetry(store, self.core.registry)
        load_definitions(self.core)
        store.on_revert = partial(revert_definition, self.core)

    @property
    def store(self) -> Store:
        return self.core.store

    @property
    def connector(self) -> NodeConnector | None:
        """How to reach containers; None without a node agent."""
        return self._streams.connector

    @connector.setter
    def connector(self, connector: NodeConnector | None) -> None:
        self._streams.connector = connector

    @property
    def wake(self) -> Wake | None:
        """What to call when somebody uses a Service without endpoints."""
        return self._streams.wake

    @wake.setter
    def wake(self, wake: Wake | None) -> None:
        self._streams.wake = wake

    async def authenticate(
        self, request: HttpRequest, certificate: dict[str, Any] | None
    ) -> User | None:
        return self.authenticator.authenticate(request, certificate)

    def error_response(self, error: HttpError) -> HttpResponse:
        return from_http_error(error).response()

    async def upgrade(
        self, request: HttpRequest, connection: UpgradedConnection
    ) -> HttpResponse | None:
        """Serve exec, attach, portforward and proxy. Return a response if nothing was sent yet."""
        try:
            acting = impersonated(self.authorizer, request)
            route = parse_route(request.path)
            self._authorize(acting, route)
            if route is None or route.subresource not in Streams.names:
                return await self.handle(request)
            await self._streams.upgrade(self._resolve(acting, route), connection)
        except StatusError as error:
            return error.response()
        except ConnectionError:
            return None
        return None

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request, and count it. Raises nothing."""
        clock = asyncio.get_running_loop().time
        start = clock()
        response = await self._respond(request)
        streams = not isinstance(response.body, bytes)
        self.telemetry.record(request, response.status, None if streams else clock() - start)
        return response

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        """Turn every error into a response."""
        try:
            try:
                return await self._dispatch(impersonated(self.authorizer, request))
            except StatusError as error:
                # "Not found" and "conflict" tell the state: only report state that a crash keeps.
                await self.store.wait_durable(self.store.revision)
                return error.response()
        except StoreFailed as failure:
            return internal(f"the store cannot write: {failure}").response()
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            return internal(f"{type(error).__name__}: {error}").response()

    async def _dispatch(self, request: HttpRequest) -> HttpResponse:
        response = self._non_resource_response(request)
        if response is not None:
            return response
        route = parse_route(request.path)
        self._authorize(request, route)
        if route is None or not self.core.registry.has_version(route.group, route.version):
            if route is not None and self.core.registry.has_group(route.group):
                raise no_such_resource()
            return text_response(404, "404 page not found\n")
        if not route.plural:
            return self._discovery.answer(request) or text_response(404, "404 page not found\n")
        call = self._resolve(request, route)
        if self._reviews.is_review(call.resource.kind):
            return self._reviews.answer(call)
        if route.subresource in Streams.names:
            return await self._streams.perform(call)
        return await self._handlers.handle(call)

    def _authorize(self, request: HttpRequest, route: Route | None) -> None:
        self.authorizer.require(request.user, _attributes(request, route))

    def _resolve(self, request: HttpRequest, route: Route) -> Call:
        """Return the call that a request makes. Raises StatusError if its resource is not served."""
        resource = self.core.registry.find(route.group, route.version, route.plural)
        if resource is None or (route.namespace and not resource.namespaced):
            raise no_such_resource()
        if request.method == "HEAD" and route.subresource != "proxy":
            raise method_not_allowed()  # of objects, as in kube-apiserver
        if route.name and resource.verbs == ("create",):
            raise no_such_resource()
        watch = route.watch_prefix or request.flag("watch")
        verb = route.verb(request.method, watch=watch)
        if verb in ("update", "patch") and not route.name:
            raise method_not_allowed()
        if route.subresource:
            offered = resource.subresource(route.subresource)
            if offered is None:
                raise no_such_resource()
            if verb not in offered.verbs:
                raise method_not_allowed()
        elif verb not in resource.verbs and not (verb == "watch" and "get" in resource.verbs):
            raise method_not_allowed()
        streamed = route.subresource in Streams.names
        answer = (
            PLAIN
            if streamed
            else negotiate(
                request.headers.get("accept", ""),
                many=verb in ("list", "watch"),
                watch=verb == "watch",
            )
        )
        call = Call(request, route, resource, verb, answer)
        call.warn(resource.warning)
        return call

    def _non_resource_response(self, request: HttpRequest) -> HttpResponse | None:
        path = request.path.rstrip("/") or "/"
        if path in ("/healthz", "/livez", "/readyz") or path.startswith(("/livez/", "/readyz/")):
            return self._health(request)
        if path == "/version":
            return json_response(200, VERSION)
        if not path.startswith("/api"):
            self._authorize(request, None)
        if path.startswith("/openapi"):
            return self._openapi.answer(request)
        if path == "/metrics":
            return text_response(200, self.telemetry.text())
        if path == "/openid/v1/jwks" and self.tokens is not None:
            return json_response(200, self.tokens.key_set())
        if path in ("/api", "/apis") or (path.startswith("/apis/") and path.count("/") == 2):
            self._authorize(request, None)
            return self._discovery.answer(request)
        if path == "/":
            return json_response(
                200, {"paths": ["/api", "/apis", "/healthz", "/metrics", "/version"]}
            )
        return None

    def _health(self, request: HttpRequest) -> HttpResponse:
        failure = self.store.failure
        if failure is not None:
            return text_response(500, f"[-]store failed: {failure}\n")
        verbose = any(name == "verbose" for name, _ in request.query)
        name = request.path.strip("/").partition("/")[0]
        return text_response(
            200, f"[+]ping ok\n[+]store ok\n{name} check passed\n" if verbose else "ok"
        )

    def put(self, api_version: str, kind: str, obj: dict[str, Any]) -> None:
        """Create an object during bootstrap, unless it exists."""
        resource = self.core.registry.by_kind(api_version, kind)
        assert resource is not None, kind
        self._resources.ensure(resource, obj)


def _attributes(request: HttpRequest, route: Route | None) -> Attributes:
    """Return what the authorizer must allow for this request."""
    if route is None or not route.plural:
        verb = VERBS.get(request.method, request.method.lower())
        return Attributes(verb, path=request.path)
    watch = route.watch_prefix or request.flag("watch")
    namespace = route.namespace
    if route.plural == "namespaces" and not route.group:
        namespace = route.name
    return Attributes(
        route.verb(request.method, watch=watch),
        route.group,
        route.plural,
        route.subresource,
        route.name,
        namespace,
    )
