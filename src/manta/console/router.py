"""Which page an address means, and what its forms do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.api.well_known import RESOURCES_OF_GPUS
from manta.client.gpus import GpuRow
from manta.console.action_executor import ActionExecutor, Commands
from manta.console.changes import retry_name
from manta.console.differences import as_written
from manta.console.edits import opened_of
from manta.console.history import History, KeptSessions
from manta.console.live_queries import dashboard_refusal, head_service
from manta.console.log_routes import fetch_log_page, followed_log, log_as_file, parse_log_ref
from manta.console.operators import LocalMetrics
from manta.console.pages import messages
from manta.console.pages.actions import BY_WORD, RESOURCES, Action, confirmation, permitted
from manta.console.pages.events import events_page
from manta.console.pages.fleet import filter_of, fleet
from manta.console.pages.forecast import Forecast
from manta.console.pages.history import FILTERS, history_page
from manta.console.pages.objects import object_page
from manta.console.pages.operator import operator_page
from manta.console.pages.page import Page
from manta.console.pages.parts import KINDS, address
from manta.console.pages.plan import digest_of, opened_in, plan_page
from manta.console.rights import Rights
from manta.console.snapshot import Item
from manta.console.visitors import Visitor
from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.kube.errors import ApiError, MantaError, Unauthorized
from manta.ray.models import Unreachable

Query = Sequence[tuple[str, str]]
CHANGED: Final = "The text is not the one whose plan you saw, or the object has changed: look again, then press Apply."
MAX_FIELDS: Final = 100
"""The most fields of a form."""


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
            return await fetch_log_page(visitor, parse_log_ref(parts, dict(query)))
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

    async def download(self, visitor: Visitor, request: HttpRequest) -> HttpResponse | None:
        """A log as a file, or as it grows; None: a page is asked for."""
        parts = request.path.strip("/").split("/")
        if len(parts) != 4 or parts[3] != "log":
            return None
        log = parse_log_ref(parts, dict(request.query))
        if request.flag("follow"):
            return followed_log(visitor, log)
        return await log_as_file(visitor, log) if request.flag("download") else None

    async def post(self, visitor: Visitor, request: HttpRequest) -> HttpResponse | Page:
        """Carry out a form. A redirect, or a page that says what is wrong. Raises UsageError."""
        fields = _fields_of(request.body)
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
        text, opened = fields.get("yaml", "").replace("\r\n", "\n"), opened_in(fields)
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
        return plan_page(to_yaml(as_written(found)), (), opened_of(one.kind, found))


def _fields_of(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises UsageError."""
    try:
        pairs = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise UsageError(f"the form has more than {MAX_FIELDS} fields") from error
    return dict(pairs)


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
