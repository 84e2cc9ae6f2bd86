"""The API server's way into a Pod: logs, exec, attach and connections to its ports."""

from __future__ import annotations

from collections.abc import Callable

from manta.localplane.node.podworker import PodWorker


class LocalConnector:
    """Implements the server's `NodeConnector`."""

    def __init__(self, find: Callable[[str, str], PodWorker | None]) -> None:
        self._find = find
