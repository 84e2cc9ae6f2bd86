"""The history of a plane: ships the files of deleted Pods, and records the URL of the store."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from manta.cli.plane.history_answers import answers_directory, kept_directory
from manta.localplane.private_files import write_private_file

if TYPE_CHECKING:
    from manta.history.store import Store

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
        self._set_aside: set[str] = set()
        """Directories that cannot be shipped, until the plane starts again."""
        self._ended = False

    def notify(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    async def run(self) -> None:
        """Until cancelled. Raises UsageError if the store cannot be opened."""
        from manta.history.store import open_store

        store = open_store(self._url, os.environ)
        write_private_file(_record(self._directory), self._url)
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if await asyncio.to_thread(self._import_all, store):
                    continue
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()
        finally:
            self._ended = True

    def _import_all(self, store: Store) -> bool:
        """Ship every kept Pod. False: a store or a disk failed, which may pass.

        One Pod stops neither the next one nor the plane: what it left may be anything.
        """
        from manta.localplane.node.pod.kept import kept_pods

        passed = True
        for one in kept_pods(kept_directory(self._directory)):
            if self._ended:
                break
            if one.name not in self._set_aside:
                passed = self._import(store, one) and passed
        return passed

    def _import(self, store: Store, directory: Path) -> bool:
        from manta.history.kept_pods import import_pod
        from manta.history.store import StoreError

        try:
            import_pod(store, directory, answers_directory(self._directory) / directory.name)
        except (StoreError, OSError) as error:
            _warn(f"{directory}: {error}; trying again in {RETRY_SECONDS:.0f} s")
            return False
        except Exception as error:  # noqa: BLE001 - what a Pod left may be anything
            self._set_aside.add(directory.name)
            _warn(f"{directory} is set aside until the next start: {type(error).__name__}: {error}")
        return True


def _warn(words: str) -> None:
    print(f"history: {words:.500}", file=sys.stderr, flush=True)
