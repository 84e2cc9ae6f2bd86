"""Follow a RayJob until it finishes: its progress, its log and its result."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from manta.api.conditions import find
from manta.api.meta import Key
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_JOBS
from manta.cli.output.progress import Progress, open_progress
from manta.client.job_logs import FINISHED, Print, stream_pod, submitter_pods, to_stdout
from manta.client.submission import exit_code
from manta.kube.client import Client
from manta.kube.errors import Unreachable

PAUSE_SECONDS = 2.0
LOG_LAG_SECONDS = 15.0
"""How long the log may lag behind the end of the job."""
_REPEATED = re.compile(
    rb"(\d{4}-\S+ \S+\s+INFO cli\.py:\d+ -- )?Status message: Job entrypoint command failed with "
    rb"exit code "
)
"""After this line Ray's client prints the end of the log a second time."""
_MAX_PREFIX = 150
_LOG_FOLLOWS = re.compile(r", last available logs.*", re.DOTALL)


async def follow(client: Client, key: Key, out: Print = to_stdout) -> int:
    """Print progress and log until the job finishes. Returns its exit code."""
    with open_progress() as progress:

        def printed(chunk: bytes) -> None:
            progress.finish()  # from here on only the log is printed
            out(chunk)

        tasks = [
            asyncio.create_task(_print_log(client, key, printed)),
            asyncio.create_task(_remind(progress)),
        ]
        try:
            status = await _until_finished(client, key, progress)
            await asyncio.wait(tasks[:1], timeout=LOG_LAG_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    if status is None:
        _print(f"rayjob/{key.name} was deleted")
        return 1
    _print(f"rayjob/{key.name} {result_line(status)}")
    return exit_code(status)


def result_line(status: dict[str, Any]) -> str:
    """The result in one line, without the part of the log that Ray repeats in its message."""
    end = status.get("jobStatus") or status.get("reason") or ""
    words = f"{status['jobDeploymentStatus']} ({end})"
    if exit_code(status) == 0:
        return words
    why = _LOG_FOLLOWS.sub("", status.get("message") or "").strip()
    first = why.partition("\n")[0]
    return f"{words}: {first}" if first else words


async def _until_finished(client: Client, key: Key, progress: Progress) -> dict[str, Any] | None:
    """The last status; None if the RayJob was deleted. Reconnects after a lost connection."""
    who = f"rayjob/{key.name}"
    while True:
        try:
            async for document in _changes(client, key):
                if document is None:
                    return None
                status = document.get("status") or {}
                if status.get("jobDeploymentStatus") in FINISHED:
                    progress.forget(who)  # the caller prints the result
                    return dict(status)
                progress.report(who, _waits_for(document))
        except Unreachable as error:
            progress.report(who, f"{error}; reconnecting")
            await asyncio.sleep(PAUSE_SECONDS)


async def _changes(client: Client, key: Key) -> AsyncIterator[dict[str, Any] | None]:
    fields = f"metadata.name={key.name}"
    watch = client.watch(RAY_JOBS, key.namespace, fields=fields, initial_events=True)
    async with aclosing(watch) as events:
        async for event in events:
            if event.type in ("ADDED", "MODIFIED"):
                yield event.object
            elif event.type == "DELETED":
                yield None


def _waits_for(document: dict[str, Any]) -> str:
    job = RayJob() if not document.get("status") else msgspec.convert(document, RayJob)
    ready = find(job.status.conditions, "Ready")
    stage = job.status.job_deployment_status
    if ready is not None and ready.status != "True":
        return f"{stage or 'New'}: {ready.message}"
    return f"{stage or 'New'} {job.status.job_status}".strip()


async def _remind(progress: Progress) -> None:
    while True:
        await asyncio.sleep(1.0)
        progress.remind()


async def _print_log(client: Client, key: Key, out: Print) -> None:
    async with aclosing(submitter_pods(client, key)) as pods:
        async for name in pods:
            once = PrintOnce(out)
            await stream_pod(client, Key(key.namespace, name), once, follow=True)
            once.flush()


class PrintOnce:
    """Passes a log on up to the line after which Ray's client repeats it."""

    def __init__(self, out: Print) -> None:
        self._out = out
        self._held = b""
        """The beginning of a line that may become that line."""
        self._in_line = False
        self._stopped = False

    def __call__(self, chunk: bytes) -> None:
        if self._stopped:
            return
        passed = b""
        for line in (self._held + chunk).splitlines(keepends=True):
            self._held = b""
            whole = line.endswith((b"\n", b"\r"))
            if not self._in_line and _REPEATED.match(line):
                self._stopped = True
                break
            if not self._in_line and not whole and _may_become(line):
                self._held = line
                break  # incomplete: the rest comes with the next chunk
            passed += line
            self._in_line = not whole
        if passed:
            self._out(passed)

    def flush(self) -> None:
        """The log has ended: print the held beginning of a line."""
        if self._held and not self._stopped:
            self._out(self._held)
        self._held = b""


def _may_become(line: bytes) -> bool:
    """Whether this may be the beginning of a line that `_REPEATED` matches."""
    return len(line) < _MAX_PREFIX and (
        line[:1].isdigit() or b"Status message".startswith(line[:14])
    )


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
