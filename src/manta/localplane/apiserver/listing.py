"""Lists: snapshots at a resourceVersion, in pages."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass

import msgspec

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.options import ListOptions
from manta.localplane.apiserver.selectors import Selection
from manta.localplane.apiserver.status_errors import (
    StatusError,
    bad_request,
    expired,
    version_too_large,
)
from manta.localplane.store.objects import Compacted, Record, key_of

REVISION_WAIT_SECONDS = 3.0
"""How long a reader waits for a resourceVersion that does not exist yet."""

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


@dataclass(frozen=True, slots=True)
class Page:
    records: list[Record]
    revision: int
    token: str = ""
    remaining: int = 0


async def read_page(
    core: Core, resource: ApiResource, selection: Selection, options: ListOptions
) -> Page:
    if options.token:
        if options.revision:
            raise bad_request("specifying resource version is not allowed when using continue")
        page = _next_page(core, resource, selection, options)
    else:
        page = await _first_page(core, resource, selection, options)
    await core.store.wait_durable(min(page.revision, core.store.revision))
    return page


async def _first_page(
    core: Core, resource: ApiResource, selection: Selection, options: ListOptions
) -> Page:
    revision = options.revision or 0
    exact = options.match == "Exact" or (revision > 0 and options.limit > 0 and not options.match)
    if revision > core.store.revision:
        if exact:
            raise version_too_large(revision, core.store.revision, retry=True)
        await await_revision(core, revision)
    limit = 0 if options.revision == 0 else options.limit
    if exact and revision:
        try:
            records = core.store.select_at(resource.storage_name, revision, selection.namespace)
        except Compacted as error:
            raise expired(str(error)) from None
        return _page(records, selection, revision, limit, "")
    return _page(_candidates(core, resource, selection), selection, core.store.revision, limit, "")


def _candidates(core: Core, resource: ApiResource, selection: Selection) -> list[Record]:
    if selection.name and (selection.namespace or not resource.namespaced):
        found = core.store.get(resource.storage_name, key_of(selection.namespace, selection.name))
        return [found] if found is not None else []
    return core.store.select(resource.storage_name, selection.namespace)


def _next_page(
    core: Core, resource: ApiResource, selection: Selection, options: ListOptions
) -> Page:
    token = _read_token(options.token)
    start = key_of(selection.namespace, token.start) if selection.namespace else token.start
    if token.rv < 0:
        records = core.store.select(resource.storage_name, selection.namespace)
        return _page(records, selection, core.store.revision, options.limit, start)
    try:
        records = core.store.select_at(resource.storage_name, token.rv, selection.namespace)
    except Compacted:
        raise _stale_token(token) from None
    return _page(records, selection, token.rv, options.limit, start)


def _page(
    records: list[Record], selection: Selection, revision: int, limit: int, start: str
) -> Page:
    rest = [record for record in records if record.key >= start] if start else records
    matching = rest if selection.everything else [one for one in rest if selection.matches(one)]
    if not limit or len(matching) <= limit:
        return Page(matching, revision)
    page = matching[:limit]
    last = page[-1].key
    if selection.namespace:
        last = last[len(selection.namespace) + 1 :]
    remaining = len(matching) - limit if selection.everything else 0
    return Page(page, revision, _write_token(revision, f"{last}\0"), remaining)


def _write_token(revision: int, start: str) -> str:
    text = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, start))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if token.v != "meta.k8s.io/v1" or not token.start:
        raise bad_request("invalid continue token: continue key is not valid: no start")
    return token


def _stale_token(token: _Token) -> StatusError:
    error = expired(_TOO_OLD)
    error.metadata = {"continue": _write_token(-1, token.start)}
    return error


async def await_revision(core: Core, revision: int) -> None:
    """Wait for a revision that does not exist yet. Raises a 504 if it does not come."""
    try:
        async with asyncio.timeout(REVISION_WAIT_SECONDS):
            await core.store.wait_reached(revision)
    except TimeoutError:
        raise version_too_large(revision, core.store.revision, retry=True) from None
