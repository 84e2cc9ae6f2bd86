"""The history of a plane: ships the files of deleted Pods, and records the URL of the store."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from manta.cli.plane.history_answers import answers_directory
from manta.localplane.node.host.plane_id import NODE_DIRECTORY
from manta.localplane.private_files import write_private_file

RETRY_SECONDS = 30.0


def default_url(directory: Path) -> str:
    return (directory.resolve() / "history").as_uri()


def _record(directory: Path) -> Path:
    return directory / "history.url"


def recorded_url(directory: Path) -> str:
    """The store of the plane in this directory; empty if it keeps no history."""
    try:
        return _record(directory).read_text().strip()
    except OSError:
        return ""


class HistoryImporter:
    """Ships what the node agent kept. `notify` may be called from any thread."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self._url = url
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._changed.set()

    def notify(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    async def run(self) -> None:
        """Until cancelled. Raises UsageError if the store cannot be opened."""
        from manta.history.store import StoreError, open_store

        store = open_store(self._url, os.environ)
        write_private_file(_record(self._directory), self._url)
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await asyncio.to_thread(self._import_all, store)
            except (StoreError, OSError) as error:
                words = f"history: {error}; trying again in {RETRY_SECONDS:.0f} s"
                print(words, file=sys.stderr, flush=True)
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    def _import_all(self, store: object) -> None:
        from manta.history.kept_pods import import_pod
        from manta.history.store import Store
        from manta.localplane.node.pod.kept import kept_pods

        assert isinstance(store, Store)
        for one in kept_pods(self._directory / NODE_DIRECTORY / "kept"):
            import_pod(store, one, answers_directory(self._directory) / one.name)
