"""Reading many: lists that are snapshots, page by page, and the revisions that clients may ask."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass

import msgspec

from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.options import ListOptions
from manta.localplane.apiserver.selectors import Selection
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import (
    Refusal,
    bad_request,
    expired,
    version_too_large,
)
from manta.localplane.store.objects import Compacted, Record, key_of

FRESHNESS_PATIENCE = 3.0
"""How long a reader waits for a revision that does not exist yet."""

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


async def read_page(core: Core, served: Served, chosen: Selection, options: ListOptions) -> Page:
    if options.token:
        if options.revision:
            raise bad_request("specifying resource version is not allowed when using continue")
        page = _continued(core, served, chosen, options)
    else:
        page = await _first(core, served, chosen, options)
    await core.store.settled(min(page.revision, core.store.revision))
    return page


async def _first(core: Core, served: Served, chosen: Selection, options: ListOptions) -> Page:
    asked = options.revision or 0
    exact = options.match == "Exact" or (asked > 0 and options.limit > 0 and not options.match)
    if asked > core.store.revision:
        if exact:
            raise version_too_large(asked, core.store.revision, retry=True)
        await await_revision(core, asked)
    limit = 0 if options.revision == 0 else options.limit
    if exact and asked:
        try:
            records = core.store.select_at(served.shelf, asked, chosen.namespace)
        except Compacted as error:
            raise expired(str(error)) from None
        return _cut(records, chosen, asked, limit, "")
    return _cut(_candidates(core, served, chosen), chosen, core.store.revision, limit, "")


def _candidates(core: Core, served: Served, chosen: Selection) -> list[Record]:
    if chosen.name and (chosen.namespace or not served.namespaced):
        found = core.store.get(served.shelf, key_of(chosen.namespace, chosen.name))
        return [found] if found is not None else []
    return core.store.select(served.shelf, chosen.namespace)


def _continued(core: Core, served: Served, chosen: Selection, options: ListOptions) -> Page:
    token = _read_token(options.token)
    start = key_of(chosen.namespace, token.start) if chosen.namespace else token.start
    if token.rv < 0:
        records = core.store.select(served.shelf, chosen.namespace)
        return _cut(records, chosen, core.store.revision, options.limit, start)
    try:
        records = core.store.select_at(served.shelf, token.rv, chosen.namespace)
    except Compacted:
        raise _stale_token(token) from None
    return _cut(records, chosen, token.rv, options.limit, start)


def _cut(records: list[Record], chosen: Selection, revision: int, limit: int, start: str) -> Page:
    rest = [record for record in records if record.key >= start] if start else records
    matching = rest if chosen.everything else [one for one in rest if chosen.matches(one)]
    if not limit or len(matching) <= limit:
        return Page(matching, revision)
    page = matching[:limit]
    last = page[-1].key
    if chosen.namespace:
        last = last[len(chosen.namespace) + 1 :]
    remaining = len(matching) - limit if chosen.everything else 0
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


def _stale_token(token: _Token) -> Refusal:
    refusal = expired(_TOO_OLD)
    refusal.metadata = {"continue": _write_token(-1, token.start)}
    return refusal


async def await_revision(core: Core, asked: int) -> None:
    """Wait a little for a revision from the future: another client may know of it already."""
    try:
        async with asyncio.timeout(FRESHNESS_PATIENCE):
            await core.store.reached(asked)
    except TimeoutError:
        raise version_too_large(asked, core.store.revision, retry=True) from None
