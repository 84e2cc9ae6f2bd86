"""Handlers of get, list and watch."""

from __future__ import annotations

from manta.httpserver.messages import HttpResponse
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.handlers.responses import list_response, object_response
from manta.localplane.apiserver.listing import await_revision, read_page
from manta.localplane.apiserver.options import ListOptions, get_revision, list_options
from manta.localplane.apiserver.selectors import Selection, select
from manta.localplane.apiserver.status_errors import not_found
from manta.localplane.apiserver.tables import answers
from manta.localplane.apiserver.watching import WatchRequest, open_watch


class ReadHandlers:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, call: Call) -> HttpResponse:
        revision = get_revision(call.request)
        if revision > self._core.store.revision:
            await await_revision(self._core, revision)
        resource = call.resource
        record = self._core.store.get(resource.storage_name, call.key)
        if record is None:
            raise not_found(resource.plural, resource.group, call.route.name)
        await self._core.store.wait_durable(record.revision)
        await call.request.reservation.wait_for()
        return object_response(self._core, call, record)

    async def list(self, call: Call) -> HttpResponse:
        options = list_options(call.request, watch=False)
        page = await read_page(self._core, call.resource, selected(call, options), options)
        await call.request.reservation.wait_for()
        return list_response(self._core, call, page)

    async def watch(self, call: Call) -> HttpResponse:
        options = list_options(call.request, watch=True)
        selection = selected(call, options)
        render = None
        if not call.answer.plain:
            include = call.request.param("includeObject")
            render = answers.watch_renderer(call.resource, call.answer, include, self._core.now)
        request = WatchRequest(call.resource, selection, options, render, call.request.reservation)
        return HttpResponse(200, await open_watch(self._core, request), call.headers())


def selected(call: Call, options: ListOptions) -> Selection:
    """Which objects a list or watch returns."""
    fields = f"metadata.name={call.route.name}" if call.route.name else options.fields
    return select(call.resource, call.route.namespace, options.labels, fields)
