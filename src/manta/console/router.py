"""Which page an address means, and what its forms do."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, quote

import msgspec

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER
from manta.api.resources import PODS
from manta.api.usage import UsageError
from manta.api.well_known import RESOURCES_OF_GPUS
from manta.client.gpus import GpuRow
from manta.client.job_logs import NoLogError, job_log, pod_log
from manta.console.action_executor import ActionExecutor, Commands
from manta.console.changes import retry_name
from manta.console.differences import as_written
from manta.console.edits import Opened
from manta.console.history import History, KeptSessions
from manta.console.live_queries import dashboard_refusal, head_service
from manta.console.operators import LocalMetrics
from manta.console.pages import messages
from manta.console.pages.actions import BY_WORD, RESOURCES, Action, confirmation, permitted
from manta.console.pages.events import events_page
from manta.console.pages.fleet import filter_of, fleet
from manta.console.pages.forecast import Forecast
from manta.console.pages.history import FILTERS, history_page
from manta.console.pages.logs import SHOWN, Containers, log_page
from manta.console.pages.objects import object_page
from manta.console.pages.operator import operator_page
from manta.console.pages.page import Page
from manta.console.pages.parts import KINDS, PLURALS, address, plain
from manta.console.pages.plan import digest_of, opened_of, plan_page
from manta.console.rights import Rights
from manta.console.snapshot import Item
from manta.console.visitors import Visitor
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.kube.client import Client
from manta.kube.errors import ApiError, MantaError, Unauthorized
from manta.ray.models import Unreachable

Query = Sequence[tuple[str, str]]
LOG_END: Final = b"event: end\ndata:\n\n"
"""Tells a browser that the log is whole; without it the connection was lost."""
CHANGED: Final = "The text is not the one whose plan you saw, or the object has changed: look again, then press Apply."
MAX_LOG: Final = 4 * 1024 * 1024
"""Bytes of a log that are read for its page."""


class Router:
    def __init__(
        self,
        commands: Commands,
        local_metrics: LocalMetrics | None = None,
        *,
        dashboards: bool = False,
        history: History | None = None,
    ) -> None:
        """`local_metrics`: of the operator of a plane on this machine. `dashboards`: whether they are served."""
        self.history = history
        self._actions = ActionExecutor(commands)
        self._dashboards = dashboards
        self._local_metrics = local_metrics

    async def page(self, visitor: Visitor, path: str, query: Query) -> Page:
        """The page at this address; one that says so if there is none."""
        if (top := await self._top(visitor, path, query)) is not None:
            return top
        parts = path.strip("/").split("/")
        if len(parts) == 4 and parts[3] == "log":
            return await self._log(visitor, parts, dict(query).get("container", ""))
        one = self._item(visitor, parts)
        if one is None:
            return messages.missing(path)
        rights = await visitor.rights(one.key.namespace)
        if len(parts) == 3:
            return await self._object(visitor, one, rights)
        return await self._confirm(visitor, one, parts[3], dict(query), rights)

    async def _top(self, visitor: Visitor, path: str, query: Query) -> Page | None:
        """A page of the navigation; None: the path is another's."""
        snapshot, given = visitor.watch.snapshot(), dict(query)
        if path == "/":
            gpus: tuple[GpuRow, ...] = ()
            if any(RESOURCES_OF_GPUS & one.status.capacity.keys() for one in snapshot.nodes):
                rights = await visitor.rights("default")
                gpus = await visitor.queries.gpus(snapshot.nodes, rights)
            return fleet(snapshot, filter_of(query), gpus)
        if path == "/events":
            return events_page(snapshot, warnings=given.get("type") == "Warning")
        if path == "/plan":
            return await self._editor(visitor, given.get("object", ""))
        if path == "/operator":
            return await self._operator(visitor)
        if path == "/history" and self.history is not None:
            return await self._kept(visitor, self.history, given)
        return None

    async def _object(self, visitor: Visitor, one: Item, rights: Rights) -> Page:
        snapshot = visitor.watch.snapshot()
        live = await visitor.queries.about(snapshot, one, rights)
        live = replace(live, history=self.history is not None)
        if self._dashboards and one.kind == "RayCluster" and head_service(one):
            live = replace(live, dashboard=not dashboard_refusal(one, rights))
        return object_page(snapshot, one, rights.allows, live)

    @staticmethod
    async def _kept(visitor: Visitor, history: History, given: Mapping[str, str]) -> Page:
        chosen = {name: given[name] for name in FILTERS if given.get(name)}
        snapshot = visitor.watch.snapshot()
        try:
            found = await history.sessions(visitor.token, chosen)
        except MantaError as error:
            return history_page(snapshot, KeptSessions(), chosen, str(error))
        return history_page(snapshot, found, chosen)

    async def _operator(self, visitor: Visitor) -> Page:
        snapshot = visitor.watch.snapshot()
        if visitor.operators is None:
            visitor.operators = visitor.metrics_reader(self._local_metrics)
        operators = visitor.operators
        found = await visitor.queries.last("operator", lambda: operators.read(snapshot))
        why = found.why if isinstance(found, Unreachable) else ""
        return operator_page(snapshot, operators.view(snapshot, why))

    # ── objects and actions ──────────────────────────────────────────────────────────────

    @staticmethod
    def _item(visitor: Visitor, parts: Sequence[str]) -> Item | None:
        if len(parts) not in (3, 4) or parts[0] not in KINDS:
            return None
        return visitor.watch.snapshot().get(KINDS[parts[0]], Key(parts[1], parts[2]))

    async def _confirm(
        self, visitor: Visitor, one: Item, word: str, fields: Mapping[str, str], rights: Rights
    ) -> Page:
        action = _action(one, word, rights)
        snapshot = visitor.watch.snapshot()
        kept = {name: fields[name] for name in action.asks if name in fields}
        if action.word == "retry":
            kept["name"] = retry_name(one, snapshot)
        forecast = await self._actions.forecast(visitor.client, snapshot, one, action, kept)
        return confirmation(one, action, forecast, kept)

    async def post(self, visitor: Visitor, request: HttpRequest) -> HttpResponse | Page:
        """Carry out a form. A redirect, or a page that says what is wrong. Raises UsageError."""
        fields = dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
        if request.path == "/plan":
            return await self._plan(visitor, fields)
        parts = request.path.strip("/").split("/")
        one = self._item(visitor, parts)
        if one is None or len(parts) != 4:
            return messages.missing(request.path)
        action = _action(one, parts[3], await visitor.rights(one.key.namespace))
        snapshot = visitor.watch.snapshot()
        key = await self._actions.perform(visitor.client, snapshot, one, action, fields)
        if key != one.key:
            await visitor.watch.until_known(one.kind, key)
        to = "/" if action.word == "delete" else address(one.kind, key)
        return _see(f"{to}?done={action.word}")

    async def _plan(self, visitor: Visitor, fields: Mapping[str, str]) -> HttpResponse | Page:
        """Only what a person has seen is applied: not a text that was changed after its plan, and nothing else than
        the diff that was shown."""
        text, opened = fields.get("yaml", "").replace("\r\n", "\n"), opened_of(fields)
        forecasts = await self._actions.forecast_text(visitor.client, text, opened)
        if fields.get("do") != "apply" or any(one.problems for one in forecasts):
            return plan_page(text, forecasts, opened)
        if fields.get("planned") != digest_of(text, forecasts):
            return plan_page(text, forecasts, opened, why=CHANGED)
        try:
            done = await self._actions.apply_text(visitor.client, text, opened)
        except (ApiError, UsageError) as error:
            if isinstance(error, Unauthorized):
                raise
            return plan_page(text, (Forecast(problems=(str(error),)),), opened)
        kind, key = done[0]
        if len(done) > 1 or kind not in RESOURCES:
            return _see("/?done=apply")
        await visitor.watch.until_known(kind, key)
        return _see(f"{address(kind, key)}?done=apply")

    async def _editor(self, visitor: Visitor, which: str) -> Page:
        """The YAML of an object as a person would write it; the example without one."""
        if not which:
            return plan_page()
        one = self._item(visitor, which.strip("/").split("/"))
        if one is None:
            return messages.missing(which)
        found = await visitor.client.get(RESOURCES[one.kind], one.key)
        meta = found["metadata"]
        opened = Opened(one.kind, one.key, meta["uid"], meta.get("generation", 0))
        return plan_page(to_yaml(as_written(found)), (), opened)

    # ── logs ─────────────────────────────────────────────────────────────────────────────

    async def _log(self, visitor: Visitor, parts: Sequence[str], chosen: str) -> Page:
        path, key = f"/{quote('/'.join(parts))}", Key(parts[1], parts[2])
        title, back, containers = f"Log of {key.name}", (str(key), "/"), Containers()
        if parts[0] == PLURALS["RayJob"]:
            back = (str(key), address("RayJob", key))
        for pod in visitor.watch.snapshot().pods:
            if pod.metadata.key == key and parts[0] == PODS.plural:
                owner = Key(key.namespace, pod.metadata.labels.get(LABEL_CLUSTER, ""))
                if visitor.watch.snapshot().get("RayCluster", owner) is not None:
                    back = (str(owner), address("RayCluster", owner))
                names = tuple(one.name for one in pod.spec.containers)
                containers = Containers(names, chosen if chosen in names else "")
        try:
            text = await _tail(
                _log_of(visitor.client, parts[0], key, containers.chosen, tail=SHOWN)
            )
        except (NoLogError, MantaError) as error:
            return log_page(title, back, path, "", str(error), containers)
        return log_page(title, back, path, text, "", containers)

    async def download(self, visitor: Visitor, request: HttpRequest) -> HttpResponse | None:
        """A log as a file, or as it grows; None: a page is asked for."""
        parts = request.path.strip("/").split("/")
        if (
            len(parts) != 4
            or parts[3] != "log"
            or not (request.flag("download") or request.flag("follow"))
        ):
            return None
        key, container = Key(parts[1], parts[2]), request.param("container")
        if request.flag("follow"):
            growing = _log_of(visitor.client, parts[0], key, container, follow=True, tail=SHOWN)
            lines = _followed(visitor, growing)
            return HttpResponse(200, lines, content_type="text/event-stream")
        name = "".join(one for one in key.name if one.isalnum() or one in "-.")
        headers = (
            ("Content-Disposition", f'attachment; filename="{name}.log"'),
            ("Content-Security-Policy", "sandbox"),
        )
        whole = await _begun(_log_of(visitor.client, parts[0], key, container))
        return HttpResponse(200, whole, headers, "text/plain; charset=utf-8")


def _log_of(
    client: Client,
    plural: str,
    key: Key,
    container: str = "",
    *,
    follow: bool = False,
    tail: int = 0,
) -> AsyncIterator[bytes]:
    """`tail`: lines of a Pod's log; `container`: empty for its first. Raises UsageError for something without a log."""
    if plural == PLURALS["RayJob"]:
        return job_log(client, key, follow=follow)
    if plural == PODS.plural and container:
        return pod_log(client, key, container=container, follow=follow, tail=tail)
    if plural == PODS.plural:
        return _first_container_log(client, key, follow=follow, tail=tail)
    raise UsageError(f"{plural} have no log: open the log of one of its Pods")


async def _begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks, of which the first has come. Raises what keeps it from coming: a page can still say that."""
    try:
        first = await anext(chunks)
    except StopAsyncIteration:
        first = b""

    async def rest() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return rest()


async def _first_container_log(
    client: Client, key: Key, *, follow: bool, tail: int
) -> AsyncIterator[bytes]:
    """The log of Ray's container: the first one, also with an autoscaler. Kubernetes requires its name."""
    pod = await client.get(PODS, key)
    container = pod["spec"]["containers"][0]["name"]
    async for chunk in pod_log(client, key, container=container, follow=follow, tail=tail):
        yield chunk


async def _tail(chunks: AsyncIterator[bytes]) -> str:
    held = b""
    async for chunk in chunks:
        held = (held + chunk)[-MAX_LOG:]
    return "\n".join(plain(held.decode("utf-8", "replace")).splitlines()[-SHOWN:]) + (
        "\n" if held else ""
    )


async def _followed(visitor: Visitor, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The log as it grows, as messages of text, which replace the text of the page."""
    visitor.streams += 1
    decode = getincrementaldecoder("utf-8")(
        "replace"
    ).decode  # a chunk may end inside of a character
    try:
        async for chunk in chunks:
            yield b"data: %b\n\n" % msgspec.json.encode(plain(decode(chunk)))
    except MantaError as error:
        yield b"data: %b\n\n" % msgspec.json.encode(f"\n[the log cannot be followed: {error}]\n")
    finally:
        visitor.streams -= 1
    yield LOG_END


def _action(one: Item, word: str, rights: Rights) -> Action:
    """Raises UsageError if it is unknown, does not fit, or is not allowed."""
    action = BY_WORD.get(word)
    if action is None or not action.offered(one):
        raise UsageError(f"{word}: this cannot be done to {one.kind} {one.key} now")
    if not permitted(action, one, rights.allows):
        what = "services/proxy" if word == "stop" else RESOURCES[one.kind].plural
        raise UsageError(f"{word}: you may not {action.verb} {what}")
    return action


def _see(to: str) -> HttpResponse:
    return HttpResponse(303, b"", (("Location", to),), "text/html; charset=utf-8")
