"""`kubectl ray log -f`: print the logs of all containers of some Pods as they grow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from manta.api.meta import Key
from manta.cli.plugin.waiting import note
from manta.client.job_logs import stream_pod, to_stdout
from manta.kube.client import Client
from manta.kube.errors import MantaError

MAX_LINE = 64 * 1024
"""Bytes of a line that are kept until its end arrives."""


async def follow(client: Client, pods: Sequence[Mapping[str, Any]]) -> int:
    """Print until all containers have ended. Each line names its Pod and container."""
    sources = [
        (Key(pod["metadata"].get("namespace", ""), pod["metadata"]["name"]), one["name"])
        for pod in pods
        for one in pod["spec"]["containers"]
    ]
    results = await asyncio.gather(*(_follow_one(client, *source) for source in sources))
    return 0 if all(results) else 1


async def _follow_one(client: Client, key: Key, container: str) -> bool:
    lines = PrefixedLines(f"[{key.name} {container}] ".encode())
    try:
        await stream_pod(client, key, lines.feed, container=container, follow=True)
    except MantaError as error:
        note(f"Error: pod/{key.name}, container {container}: {error}")
        return False
    finally:
        lines.flush()
    return True


class PrefixedLines:
    """Writes whole lines, so that lines of several containers do not mix."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._held = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._held = (self._held + chunk).split(b"\n")
        if len(self._held) > MAX_LINE:
            lines.append(self._held)
            self._held = b""
        if lines:
            to_stdout(b"".join(self._prefix + line + b"\n" for line in lines))

    def flush(self) -> None:
        if self._held:
            to_stdout(self._prefix + self._held + b"\n")
        self._held = b""
