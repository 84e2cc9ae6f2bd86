"""Journals on disk for tests: filled, closed or as a killed process leaves them, and read again."""

from __future__ import annotations

import shutil
from pathlib import Path

from manta.localplane.store.journal import SqliteJournal, load
from manta.localplane.store.store import Store

NAME = "store.db"
State = dict[tuple[str, str], bytes]


def open_store(directory: Path, *, keys: tuple[Path, ...] = ()) -> Store:
    """A store with its journal, as a plane opens it. Needs a running loop."""
    path = directory / NAME
    store = Store()
    load(path, store, durable=False, keys=keys)
    journal = SqliteJournal(path, store)
    journal.start()
    store.attach(journal)
    return store


def read_state(directory: Path) -> State:
    """What a plane that starts here would serve. Raises JournalError."""
    store = Store()
    load(directory / NAME, store, durable=False)
    return state_of(store)


def state_of(store: Store) -> State:
    return {
        (name, key): record.raw
        for name, resource in store.resources().items()
        for key, record in resource.records.items()
    }


def an_object(name: str, size: int = 200) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "data": {"text": name * size}}


async def fill(store: Store, count: int, prefix: str = "pod") -> None:
    """Creations, changes and deletions, all acknowledged."""
    for number in range(count):
        name = f"{prefix}-{number}"
        written = store.put("pods", f"ns/{name}", an_object(name, 20 + number % 50))
        if number % 3 == 0:
            written = store.put("pods", f"ns/{name}", an_object(name, 30))
        if number % 7 == 0:
            written = store.remove("pods", f"ns/{name}", an_object(name))
        if number % 10 == 0:
            await store.wait_durable(written.revision)
    await store.wait_durable(store.revision)


async def closed_store(directory: Path, count: int = 120) -> State:
    """A journal that was closed as it should be; what it holds."""
    directory.mkdir(parents=True, mode=0o700)
    store = open_store(directory)
    await fill(store, count)
    state = state_of(store)
    await store.close()
    return state


async def killed_store(directory: Path, count: int = 60) -> State:
    """A journal as `kill -9` leaves it, the latest writes in the write-ahead log only."""
    work = directory.with_name(f"{directory.name}-live")
    await closed_store(work)
    store = open_store(work)
    await fill(store, count, "late")
    state = state_of(store)
    shutil.copytree(work, directory)
    await store.close()
    return state
