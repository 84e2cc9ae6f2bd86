"""From a plane that has just started to the ready objects of the user."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.usage import UsageError
from manta.cli.apply import apply_document
from manta.cli.dashboard import hint
from manta.cli.output.progress import Progress
from manta.cli.output.wait import Followed, Follower
from manta.cli.plane.operator import operator_health, operator_log
from manta.cli.plane.process import last_lines
from manta.cli.server.connection import open_plane
from manta.cli.server.discovery import Kinds
from manta.cli.server.manifests import Document
from manta.kube.client import Client
from manta.kube.errors import ApiError, Unreachable

START_SECONDS = 60.0
RAY_KINDS = [{"apiVersion": one.api_version, "kind": one.kind} for one in RAY_RESOURCES]
MAX_EXITS, USAGE_EXIT = 3, 2
"""Exits of the operator in a row, and the exit code, after which waiting does not help."""


async def complete(args: argparse.Namespace, documents: list[Document], progress: Progress) -> int:
    """Wait for the operator, then apply the manifests and wait for them. Returns the exit code."""
    progress.report("operator", "starting")
    await await_operator(args.dir)
    progress.report("operator", "ready", "ready")
    return await bring_up(args, documents, progress)


async def await_operator(directory: Path) -> None:
    """Wait until the operator is ready. Raises UsageError with its log if it does not start."""
    deadline = time.monotonic() + START_SECONDS
    while not (health := await asyncio.to_thread(operator_health, directory)).ready:
        failed = health.exits >= MAX_EXITS or health.last_exit == USAGE_EXIT
        if failed or time.monotonic() > deadline:
            raise UsageError(
                f"the operator of this plane does not run: {health.text}. {operator_log(directory)} "
                f"ends with:\n{last_lines(operator_log(directory), 10)}\nThe plane keeps running; "
                f"`manta down --dir {directory}` stops it"
            )
        await asyncio.sleep(0.02)


async def bring_up(args: argparse.Namespace, documents: list[Document], progress: Progress) -> int:
    """Apply the manifests, and wait until they are ready. Returns the exit code.

    Without manifests, wait until the API server serves the Ray kinds.
    """
    async with open_plane(args.dir) as client:
        kinds = await _until_kinds_known(client, documents or RAY_KINDS)
        if not documents:
            return 0
        followed = []
        for document in documents:
            print(await apply_document(client, kinds, document), file=sys.stderr)
            followed.append(Followed(*kinds.locate(document, "default")))
        began = time.monotonic()
        ready = await Follower(client, progress).until_ready(followed, args.timeout)
        progress.finish()
        if ready:
            print(f"ready after {time.monotonic() - began:.1f} s")
            await _print_addresses(client, followed, args.dir)
    return 0 if ready else 1


async def _until_kinds_known(client: Client, documents: list[Document]) -> Kinds:
    """Wait up to 10 s until the API server of a new plane serves the kinds."""
    for attempt in range(100):
        kinds = await Kinds.discover(client)
        try:
            for document in documents:
                kinds.of(document["apiVersion"], document["kind"])
        except UsageError:
            if attempt == 99:
                raise
            await asyncio.sleep(0.1)
        else:
            return kinds
    raise AssertionError("unreachable")


async def _print_addresses(client: Client, followed: list[Followed], directory: Path) -> None:
    """Print the address of each dashboard, or the command that opens it."""
    for item in followed:
        if item.resource.kind not in ("RayCluster", "RayService", "RayJob"):
            continue
        try:
            words = await hint(client, item.resource, item.key, directory)
        except (ApiError, Unreachable) as error:
            words = str(error)
        if words:
            print(f"{item}: {words}")
