"""Answers the routes of KubeRay's API server, each with the rights of the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta import __version__
from manta.api.documents.limits import REQUEST, DocumentError
from manta.api.documents.reader import read_json, read_yaml
from manta.api.meta import Key, Object
from manta.api.ray.names import APPLICATION_NAME, LABEL_CLUSTER
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from manta.api.usage import UsageError
from manta.api.well_known import LABEL_APP_NAME
from manta.console.api import compute_templates as templates
from manta.console.api.api_metrics import ApiMetrics
from manta.console.api.callers import Caller, Callers
from manta.console.api.forwarding import forwarded, unreachable
from manta.console.api.headers import RESPONSE_HEADERS, handshake, to_kubernetes
from manta.console.api.openapi import document
from manta.console.api.routes import READS, Action, Match, match, service_name
from manta.console.api.statuses import RefusedError, refusal
from manta.console.api.websockets import passed_websocket
from manta.console.sessions import Session
from manta.httpserver.messages import HttpRequest, HttpResponse, json_response
from manta.httpserver.upgrade import UpgradedConnection
from manta.kube import requests
from manta.kube.errors import ApiError, MantaError, Unreachable
from manta.kube.transport import HttpTransport, Query, Request, Response

SECONDS: Final = 60.0
"""Until the headers of a response of Kubernetes arrive; a watch may last longer."""
SERVICE_SECONDS: Final = 600.0
"""The same for a Service: an application may compute for long before it answers."""
MAX_READ: Final = 4 * 1024 * 1024
"""Bytes of an object that the console itself reads."""
_SWITCHING_PROTOCOLS: Final = 101
DOCUMENTS: Final = ("/openapi.json", "/swagger/apiserver.swagger.json")
METRICS: Final = "/metrics"
_ONLY_RAY: Final = f"regarding.apiVersion={RAY_CLUSTERS.api_version}"


class RefusedByKubernetesError(Exception):
    """Kubernetes refused a request that the console sent for the caller; `answer` goes to the caller."""

    def __init__(self, answer: Response) -> None:
        super().__init__(str(answer.status))
        self.answer = answer


class RayApi:
    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self.known = callers.known
        self.metrics = ApiMetrics(callers.open_requests)

    async def close(self) -> None:
        await self._callers.close()

    async def handle(self, request: HttpRequest, session: Session | None) -> HttpResponse:
        """`session`: of the console's cookie, if there is a valid one."""
        response = await self._answer(request, session)
        assert response is not None  # without a connection, every exchange has one
        return response

    async def upgrade(
        self, request: HttpRequest, session: Session | None, connection: UpgradedConnection
    ) -> HttpResponse | None:
        """A WebSocket to a Service of Ray. A response if there was none."""
        return await self._answer(request, session, connection)

    async def _answer(
        self,
        request: HttpRequest,
        session: Session | None,
        connection: UpgradedConnection | None = None,
    ) -> HttpResponse | None:
        route = "none"
        response: HttpResponse | None
        try:
            found = match(request.method, request.raw_path or request.path)
            route = found.route.action.value
            caller = await self._callers.of(request, session)
        except RefusedError as error:
            response = refusal(error.code, error.message, RESPONSE_HEADERS)
        except (MantaError, UsageError) as error:
            code = error.status if isinstance(error, ApiError) else 503
            response = refusal(code, str(error), RESPONSE_HEADERS)
        else:
            response = await _Exchange(request, found, caller, self._callers, connection).answer()
        self.metrics.count(route, _SWITCHING_PROTOCOLS if response is None else response.status)
        return response

    def public(self, request: HttpRequest) -> HttpResponse | None:
        """The response to a request without credentials: the OpenAPI document and metrics; None for other paths."""
        if request.method not in READS:
            return None
        if request.path in DOCUMENTS:
            return json_response(200, document(__version__))
        if request.path == METRICS:
            text, kind = self.metrics.registry.rendered(request.headers.get("accept", ""))
            return HttpResponse(200, text.encode(), content_type=kind)
        return None


class _Exchange:
    """One request of one caller. The caller is released once, when the response is sent."""

    def __init__(
        self,
        request: HttpRequest,
        found: Match,
        caller: Caller,
        callers: Callers,
        connection: UpgradedConnection | None = None,
    ) -> None:
        """`connection`: of a caller that asks for a WebSocket."""
        self._request = request
        self._connection = connection
        self._match = found
        self._caller = caller
        self._callers = callers
        self._released_by_body = False

    async def answer(self) -> HttpResponse | None:
        """None: it was a WebSocket, which has ended."""
        response: HttpResponse | None
        try:
            response = await self._dispatch()
        except RefusedError as error:
            response = refusal(error.code, error.message, RESPONSE_HEADERS)
        except RefusedByKubernetesError as error:
            kind = error.answer.headers.get("content-type", "application/json")
            response = HttpResponse(error.answer.status, error.answer.body, RESPONSE_HEADERS, kind)
        finally:
            if not self._released_by_body:
                self._caller.release()
        if self._caller.by_token and (response is None or response.status < 300):
            self._callers.accepted(self._caller)
        return response

    async def _dispatch(self) -> HttpResponse | None:
        match self._match.route.action:
            case Action.FORWARD:
                return await self._forward()
            case Action.FILL:
                return await self._fill_templates()
            case Action.EVENTS:
                return await self._forward(query=_only_ray(self._request.query))
            case Action.SERVICE:
                return await self._service()
            case Action.LOG:
                return await self._log()
            case Action.TEMPLATES | Action.TEMPLATE:
                return await self._templates()

    async def _forward(
        self,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "",
        service: bool = False,
    ) -> HttpResponse:
        headers = to_kubernetes(self._request.headers, service=service)
        if content_type:
            headers["content-type"] = content_type
        sent = Request(
            self._request.method,
            self._match.path,
            self._request.query if query is None else query,
            headers | dict(self._caller.headers),
            (self._request.body if body is None else body) or None,
            SERVICE_SECONDS if service else SECONDS,
        )
        inside = f"{self._match.path.partition('/proxy')[0]}/proxy/" if service else ""
        self._released_by_body = True
        return await forwarded(self._caller.transport, sent, self._caller.release, inside)

    async def _read(self, resource: Resource, key: Key) -> dict[str, Any]:
        """An object, with the caller's rights. Raises RefusedByKubernetesError."""
        return await self._send("GET", requests.object_path(resource, key))

    async def _send(
        self, method: str, path: str, query: Query = (), body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        headers = {"accept": "application/json", **self._caller.headers}
        if body is not None:
            headers["content-type"] = "application/json"
        text = None if body is None else msgspec.json.encode(body)
        sent = Request(method, path, query, headers, text, SECONDS, MAX_READ)
        try:
            answer = await self._caller.transport.send(sent)
        except Unreachable as error:
            failed = unreachable(sent, error)
            assert isinstance(failed.body, bytes)
            raise RefusedByKubernetesError(Response(failed.status, {}, failed.body)) from error
        if answer.status >= 300:
            raise RefusedByKubernetesError(answer)
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        return found

    # ── compute templates ────────────────────────────────────────────────────────────────

    async def _fill_templates(self) -> HttpResponse:
        """Replace the names of compute templates in a RayCluster by their resources, and pass it on."""
        document = _document(self._request)
        groups = list(templates.groups_with_template(document))
        if not groups:
            return await self._forward()
        named = {str(group[templates.FIELD]) for _, group in groups}
        if len(named) > templates.MAX_NAMED:
            raise RefusedError(
                422, f"{len(named)} compute templates: name at most {templates.MAX_NAMED}"
            )
        found = {name: await self._template(name) for name in sorted(named)}
        for kind, group in groups:
            templates.put_in(found[group[templates.FIELD]], kind, group)
        return await self._forward(
            body=msgspec.json.encode(document), content_type="application/json"
        )

    async def _template(self, name: str) -> templates.ComputeTemplate:
        namespace = self._match.values["namespace"]
        where = f"compute template {name!r} in namespace {namespace!r}"
        if not name or "/" in name or name in (".", ".."):
            raise RefusedError(422, f"Cannot get {where}: the name is invalid")
        try:
            return templates.template_of(await self._read(CONFIG_MAPS, Key(namespace, name)))
        except RefusedByKubernetesError as error:
            if error.answer.status != 404:
                raise
            raise RefusedError(
                422, f"Cannot get {where}: there is no ConfigMap of this name"
            ) from None
        except UsageError as error:
            raise RefusedError(422, f"Cannot use {where}: {error}") from error

    async def _templates(self) -> HttpResponse:
        namespace, name = (self._match.values.get(one, "") for one in ("namespace", "name"))
        if name:
            return await self._one_template(Key(namespace, name))
        if self._request.method == "POST":
            return await self._create_template(namespace)
        path = requests.path_of(CONFIG_MAPS, namespace)
        listed = await self._send("GET", path, (("labelSelector", templates.SELECTOR),))
        return _json({"computeTemplates": [_read_template(one) for one in listed["items"]]})

    async def _create_template(self, namespace: str) -> HttpResponse:
        document = _document(self._request)
        if not isinstance(document, dict):
            raise RefusedError(400, "the body must be a compute template: a JSON object")
        try:
            template = templates.sent_template(document, namespace)
        except UsageError as error:
            raise RefusedError(400, str(error)) from error
        path = requests.path_of(CONFIG_MAPS, namespace)
        made = await self._send("POST", path, body=templates.config_map(template))
        return _json(_read_template(made))

    async def _one_template(self, key: Key) -> HttpResponse:
        found = await self._read(CONFIG_MAPS, key)
        if not templates.is_template(found):
            raise RefusedError(
                404, f"Compute template {key.name} not found: it is another ConfigMap"
            )
        if self._request.method == "GET":
            return _json(_read_template(found))
        uid = {"preconditions": {"uid": found["metadata"]["uid"]}}
        await self._send("DELETE", requests.object_path(CONFIG_MAPS, key), body=uid)
        return _json({})

    # ── Services and logs ────────────────────────────────────────────────────────────────

    async def _service(self) -> HttpResponse | None:
        """Pass a request on to a Service of Ray. Raises RefusedError for other Services, and for a cookie:
        with one, pages of the application would run in the browser as pages of the console."""
        if not self._caller.by_token:
            raise RefusedError(403, "Services are reached with a bearer token, not with a cookie")
        name = service_name(self._match.values["service"])
        key = Key(self._match.values["namespace"], name)
        if not _is_of_ray(await self._read(SERVICES, key)):
            raise RefusedError(404, f"kuberay service not found: {key} is not a Service of Ray")
        if self._connection is None:
            return await self._forward(service=True)
        return await self._websocket(self._connection)

    async def _websocket(self, connection: UpgradedConnection) -> HttpResponse | None:
        transport = self._caller.transport
        if self._request.method != "GET" or not isinstance(transport, HttpTransport):
            raise RefusedError(400, "a WebSocket begins with a GET")
        headers = handshake(self._request.headers) | dict(self._caller.headers)
        sent = Request("GET", self._match.path, self._request.query, headers, None, SECONDS)
        return await passed_websocket(transport, sent, connection)

    async def _log(self) -> HttpResponse:
        key = Key(self._match.values["namespace"], self._match.values["name"])
        pod = await self._read(PODS, key)
        if LABEL_CLUSTER not in ((pod.get("metadata") or {}).get("labels") or {}):
            raise RefusedError(404, f"Pod {key} is not a Pod of Ray")
        return await self._forward()


def _only_ray(query: Query) -> Query:
    given = [value for name, value in query if name == "fieldSelector" and value]
    others = tuple(pair for pair in query if pair[0] != "fieldSelector")
    return (*others, ("fieldSelector", ",".join((*given, _ONLY_RAY))))


def _is_of_ray(service: Mapping[str, Any]) -> bool:
    """Whether a Service is Ray's: by KubeRay's label or by its owner, because Services of Ray Serve do not have the label."""
    meta = msgspec.convert(service, Object).metadata
    owner = meta.controller
    group = owner.api_version.partition("/")[0] if owner is not None else ""
    return meta.labels.get(LABEL_APP_NAME) == APPLICATION_NAME or group == RAY_CLUSTERS.group


def _document(request: HttpRequest) -> Any:
    """The object in a body, JSON or YAML. Raises RefusedError."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            return read_json(request.body, REQUEST)
        if kind in ("application/yaml", "application/x-yaml", "text/yaml"):
            return read_yaml(request.body, REQUEST)
    except DocumentError as error:
        raise RefusedError(400, f"the body cannot be read as {kind}: {error}") from error
    raise RefusedError(400, f"Content-Type {kind!r}: send application/json or application/yaml")


def _read_template(found: Mapping[str, Any]) -> Any:
    """Raises RefusedError if somebody has edited the ConfigMap into something else."""
    try:
        return templates.template_of(found)
    except UsageError as error:
        raise RefusedError(422, str(error)) from error


def _json(value: Any) -> HttpResponse:
    return json_response(200, value, RESPONSE_HEADERS)
