"""Follow a RayJob to its end: what it waits for, what it prints, and how it ended."""

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
from manta.cli.joblogs import OVER, Print, stream_pod, submitter_pods, to_stdout
from manta.cli.progress import Progress, open_progress
from manta.cli.submission import exit_code
from manta.kube.client import Client
from manta.kube.errors import Unreachable

PAUSE = 2.0
LAST_WORDS = 15.0
"""Seconds that a log may lag behind the job's end."""
_REPEATED = re.compile(
    rb"(\d{4}-\S+ \S+\s+INFO cli\.py:\d+ -- )?Status message: Job entrypoint command failed with "
    rb"exit code "
)
"""With such a line Ray's client begins to print the last part of the log a second time."""
_LONGEST_BEGIN = 150
_LOG_FOLLOWS = re.compile(r", last available logs.*", re.DOTALL)


async def follow(client: Client, key: Key, out: Print = to_stdout) -> int:
    """Print what it waits for and what it prints, until it is over; its exit code."""
    with open_progress() as progress:

        def printed(chunk: bytes) -> None:
            progress.finish()  # from here on the terminal is the log's
            out(chunk)

        tasks = [
            asyncio.create_task(_print_log(client, key, printed)),
            asyncio.create_task(_remind(progress)),
        ]
        try:
            status = await _until_over(client, key, progress)
            await asyncio.wait(tasks[:1], timeout=LAST_WORDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    if status is None:
        _say(f"rayjob/{key.name} was deleted")
        return 1
    _say(f"rayjob/{key.name} {how_it_ended(status)}")
    return exit_code(status)


def how_it_ended(status: dict[str, Any]) -> str:
    """One line. The log is printed already: what Ray repeats of it is left out."""
    end = status.get("jobStatus") or status.get("reason") or ""
    words = f"{status['jobDeploymentStatus']} ({end})"
    if exit_code(status) == 0:
        return words
    why = _LOG_FOLLOWS.sub("", status.get("message") or "").strip()
    first = why.partition("\n")[0]
    return f"{words}: {first}" if first else words


async def _until_over(client: Client, key: Key, progress: Progress) -> dict[str, Any] | None:
    """The last status; None when the RayJob was deleted. A lost connection is only a pause."""
    who = f"rayjob/{key.name}"
    while True:
        try:
            async for document in _changes(client, key):
                if document is None:
                    return None
                status = document.get("status") or {}
                if status.get("jobDeploymentStatus") in OVER:
                    progress.forget(who)  # how it ended is said once, at the end
                    return dict(status)
                progress.report(who, _waits_for(document))
        except Unreachable as error:
            progress.report(who, f"{error}; looking again")
            await asyncio.sleep(PAUSE)


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
    """Passes a log on up to the line with which Ray's client begins to repeat it."""

    def __init__(self, out: Print) -> None:
        self._out = out
        self._held = b""
        """The begin of a line that may become the one at which we stop."""
        self._line_begun = False
        self._over = False

    def __call__(self, chunk: bytes) -> None:
        if self._over:
            return
        passed = b""
        for line in (self._held + chunk).splitlines(keepends=True):
            self._held = b""
            whole = line.endswith((b"\n", b"\r"))
            if not self._line_begun and _REPEATED.match(line):
                self._over = True
                break
            if not self._line_begun and not whole and _may_become(line):
                self._held = line
                break  # the last one: more of it comes
            passed += line
            self._line_begun = not whole
        if passed:
            self._out(passed)

    def flush(self) -> None:
        """The log has ended: what looked like that line was none."""
        if self._held and not self._over:
            self._out(self._held)
        self._held = b""


def _may_become(line: bytes) -> bool:
    """Is this the begin of a line with a time, or of `Status message`? Others are never held back."""
    return len(line) < _LONGEST_BEGIN and (
        line[:1].isdigit() or b"Status message".startswith(line[:14])
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
