"""The handler of each verb and subresource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from manta.httpserver.messages import HttpResponse
from manta.localplane.apiserver.admission import Admission
from manta.localplane.apiserver.auth.authorizer import Authorizer
from manta.localplane.apiserver.auth.tokens import Tokens
from manta.localplane.apiserver.core import Call, Core
from manta.localplane.apiserver.handlers.patching import PatchHandlers
from manta.localplane.apiserver.handlers.reading import ReadHandlers
from manta.localplane.apiserver.handlers.scale import ScaleHandler
from manta.localplane.apiserver.handlers.subresources import SubresourceHandlers
from manta.localplane.apiserver.handlers.writing import WriteHandlers
from manta.localplane.apiserver.resource_store import ResourceStore
from manta.localplane.apiserver.status_errors import StatusError, method_not_allowed

_Handler = Callable[[Call], Awaitable[HttpResponse]]


class ResourceHandlers:
    def __init__(
        self,
        core: Core,
        store: ResourceStore,
        admission: Admission,
        authorizer: Authorizer,
        tokens: Tokens | None,
    ) -> None:
        reads = ReadHandlers(core)
        writes = WriteHandlers(core, store, admission, authorizer)
        subresources = SubresourceHandlers(core, store, tokens)
        self._bind_named = subresources.bind_named
        self._verbs: dict[str, _Handler] = {
            "get": reads.get,
            "list": reads.list,
            "watch": reads.watch,
            "create": writes.create,
            "update": writes.update,
            "patch": PatchHandlers(core, store, authorizer).patch,
            "delete": writes.delete,
            "deletecollection": writes.delete_collection,
        }
        self._subresources: dict[str, _Handler] = {
            "binding": subresources.bind,
            "eviction": subresources.evict,
            "scale": ScaleHandler(core, store).scale,
            "token": subresources.token,
        }

    async def handle(self, call: Call) -> HttpResponse:
        """The answer to a request about objects. Raises StatusError, which carries the warnings too."""
        try:
            return await self._handler(call)(call)
        except StatusError as error:
            for name in error.unknown:
                call.warn(f'unknown field "{name}"')
            error.headers += call.headers()
            raise

    def _handler(self, call: Call) -> _Handler:
        """Subresources without a handler of their own are updates of a part (`changes.NARROW`)."""
        if call.route.subresource in self._subresources:
            return self._subresources[call.route.subresource]
        if call.resource.storage_name == "bindings":
            return self._bind_named
        if call.verb not in self._verbs:
            raise method_not_allowed()
        return self._verbs[call.verb]
