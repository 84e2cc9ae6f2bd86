"""Follow a job that was submitted to a dashboard: print its log, and return its exit code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from manta.api.meta import Key
from manta.api.ray.resources import RAY_JOBS
from manta.cli.plugin.messages import Messages
from manta.client.dashboard_access import TERMINAL, DashboardAccess, DashboardError, JobEnd
from manta.client.job_logs import FINISHED, to_stdout
from manta.client.watch import DeletedError, states
from manta.kube.client import Client
from manta.kube.errors import ApiError, MantaError, NotFound, Unreachable

POLL_SECONDS = 1.0
MAX_FAILURES = 60
"""Failed requests in a row, a second apart, until the dashboard counts as gone."""
OPERATOR_LAG_SECONDS = 30.0
"""Seconds that the RayJob may lag behind Ray."""
Print = Callable[[bytes], None]


class LostJobError(MantaError):
    """Ray no longer answers, or does not know the job."""


async def follow(
    client: Client,
    dashboard: DashboardAccess,
    key: Key,
    submission_id: str,
    say: Messages,
    out: Print = to_stdout,
) -> int:
    """Print the log until the job ends. Returns its exit code. Raises LostJobError."""
    log = _Log(dashboard, submission_id, out)
    await log.follow()
    end = await _end(dashboard, submission_id)
    await log.rest()
    await _until_operator_knows(client, key)
    say.say(f"Job {submission_id} finished with status {end.status}.")
    code = exit_code(end)
    if code and end.message:
        say.say(end.message.partition(", last available logs")[0].strip())
    return code


def exit_code(end: JobEnd) -> int:
    """0 for a job that succeeded, else the code of its entrypoint, or 1."""
    if end.status == "SUCCEEDED":
        return 0
    reported = re.search(r"exit code (-?\d+)", end.message or "")
    code = end.driver_exit_code or (int(reported.group(1)) if reported else 1)
    return code if 0 < code < 256 else 1


class _Log:
    """Prints each byte of a log once, also over several connections."""

    def __init__(self, dashboard: DashboardAccess, submission_id: str, out: Print) -> None:
        self._dashboard = dashboard
        self._id = submission_id
        self._out = out
        self._printed = 0
        self._streams = True

    async def follow(self) -> None:
        """Print until the job ends. Where WebSockets are refused, the log is polled."""
        failures = 0
        while failures < MAX_FAILURES:
            before = self._printed
            try:
                await (self._tail() if self._streams else self.rest())
                if await _is_over(self._dashboard, self._id):
                    return
            except ApiError:
                self._streams = False
            except (Unreachable, DashboardError):
                failures = failures + 1 if self._printed == before else 0
            # A log that is fetched as a whole is fetched less often the longer it is.
            await asyncio.sleep(POLL_SECONDS + (0 if self._streams else self._printed / 1_000_000))
        raise LostJobError(
            f"Ray's dashboard no longer answers; kubectl ray status shows the RayJob of {self._id}"
        )

    async def _tail(self) -> None:
        await self._print_new(self._dashboard.tail(self._id))

    async def rest(self) -> None:
        """Print what the log has more than was printed."""
        try:
            await self._print_new(self._dashboard.log(self._id))
        except (Unreachable, DashboardError):
            if not self._streams:
                raise
            return  # the job has ended, and its cluster with it

    async def _print_new(self, log: AsyncGenerator[bytes, None]) -> None:
        at = 0
        async with aclosing(log) as pieces:
            async for piece in pieces:
                new = piece[max(0, self._printed - at) :]
                at += len(piece)
                if new:
                    self._out(new)
                    self._printed = at


async def _is_over(dashboard: DashboardAccess, submission_id: str) -> bool:
    job = await dashboard.job(submission_id)
    if job is None:
        raise LostJobError(f"Ray does not know the job {submission_id}: its cluster was replaced")
    return job.status in TERMINAL


async def _end(dashboard: DashboardAccess, submission_id: str) -> JobEnd:
    job = await dashboard.job(submission_id)
    if job is None:
        raise LostJobError(f"Ray does not know the job {submission_id}: its cluster was replaced")
    return job


async def _until_operator_knows(client: Client, key: Key) -> None:
    """Wait until the RayJob is terminal too, so that the next command sees it."""
    try:
        async with asyncio.timeout(OPERATOR_LAG_SECONDS):
            await client.get(RAY_JOBS, key)
            async for job in states(client, RAY_JOBS, key):
                status = job.get("status") or {}
                ended = status.get("jobDeploymentStatus") in FINISHED
                if ended or status.get("jobStatus") in TERMINAL:
                    return
    except (TimeoutError, NotFound, DeletedError):
        return  # the result of Ray counts
