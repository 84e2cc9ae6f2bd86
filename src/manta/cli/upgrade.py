"""`manta upgrade NAME [--image IMAGE] [--watch]`: begin an upgrade of a RayService, and follow it.

Live on a terminal: a bar of traffic and of capacity for each cluster, and what is waited for. Elsewhere
one line for each change. It ends when the upgrade is over, or cannot be waited for any longer.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from manta.api.ray.service import RayService
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.upgradeview import Stage, View, line, picture, view_of
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.errors import MantaError

REDRAW = 1.0
"""The clock of a live picture moves although nothing else does."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "upgrade",
        help="upgrade a RayService and watch it",
        **examples(
            (
                "manta upgrade echo --image rayproject/ray:2.60.0 --watch",
                "a new image, without downtime",
            ),
            ("manta upgrade echo --watch", "watch one that is under way"),
        ),
    )
    parser.add_argument("name", help="the RayService, with or without rayservice/ in front")
    add_namespace_flag(parser)
    parser.add_argument(
        "--image", metavar="IMAGE", help="give every Ray container this image: a new cluster"
    )
    parser.add_argument(
        "--ray-version", metavar="VERSION", help="what Ray version the image holds, such as 2.60.0"
    )
    parser.add_argument("--watch", action="store_true", help="follow it until it is over")
    parser.add_argument(
        "--timeout", type=float, default=1800, metavar="SECONDS", help="how long to watch"
    )
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.timeout <= 0:
        raise UsageError(f"--timeout {args.timeout:g}: more than 0 seconds are needed")
    if args.ray_version and not args.image:
        raise UsageError("--ray-version says what is in --image: give both")
    return asyncio.run(_upgrade(args))


async def _upgrade(args: argparse.Namespace) -> int:
    key = Key(namespace_of(args), args.name.rpartition("/")[2])
    async with open_client(args) as client:
        if args.image:
            await _set_image(client, key, args.image, args.ray_version)
        if args.watch:
            screen = Screen(live=sys.stdout.isatty())
            return await watch(client, key, screen, args.timeout)
        service = await client.get(RAY_SERVICES, key, into=RayService)
        print("\n".join(picture(view_of(service), 0.0)))
    return 0


async def _set_image(client: Client, key: Key, image: str, version: str | None) -> None:
    """Of the first container of every group, which is Ray's. As a patch that fails on a race."""
    document = await client.get(RAY_SERVICES, key)
    config = document["spec"]["rayClusterConfig"]
    places = ["headGroupSpec"]
    places += [f"workerGroupSpecs/{at}" for at in range(len(config.get("workerGroupSpecs") or ()))]
    patch: list[dict[str, Any]] = [
        {
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": document["metadata"]["resourceVersion"],
        }
    ]
    for place in places:
        path = f"/spec/rayClusterConfig/{place}/template/spec/containers/0/image"
        patch.append({"op": "add", "path": path, "value": image})
    if version:
        path = "/spec/rayClusterConfig/rayVersion"
        patch.append({"op": "add", "path": path, "value": version})
    await client.patch(RAY_SERVICES, key, patch, kind="json")
    print(f"rayservice/{key.name} is asked for {image}", flush=True)


async def watch(client: Client, key: Key, screen: Screen, seconds: float) -> int:
    """0: it is over and well. 1: it failed, or was not over in time."""
    seen: View | None = None
    try:
        async with asyncio.timeout(seconds):
            async for seen in _views(client, key):
                screen.show(seen)
                if seen.stage.is_last:
                    break
    except TimeoutError:
        waits_for = seen.waits_for if seen else "the server"
        screen.end(f"not over within {seconds:g} s; it waits for: {waits_for}")
        return 1
    finally:
        screen.close()
    assert seen is not None
    screen.end(seen.verdict)
    return 0 if seen.stage is Stage.COMPLETE else 1


async def _views(client: Client, key: Key) -> AsyncIterator[View]:
    """The service each time that it changes. One that is gone is an error."""
    await client.get(RAY_SERVICES, key, into=RayService)
    while True:
        changes = client.watch(
            RAY_SERVICES,
            key.namespace,
            into=RayService,
            fields=f"metadata.name={key.name}",
            initial_events=True,
        )
        async for event in changes:
            if event.type == "DELETED":
                raise MantaError(f"rayservice/{key.name} was deleted")
            if event.type in ("ADDED", "MODIFIED"):
                yield view_of(event.object)


class Screen:
    """Draws over its last picture on a terminal, and says each change once elsewhere."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._began = time.monotonic()
        self._drawn = 0
        self._said = ""
        self._view: View | None = None
        self._clock: asyncio.Task[None] | None = None

    def show(self, view: View) -> None:
        self._view = view
        if not self._live:
            self._say(view)
            return
        self._draw()
        if self._clock is None:
            self._clock = asyncio.create_task(self._keep_drawing())

    def close(self) -> None:
        if self._clock is not None:
            self._clock.cancel()

    def end(self, text: str) -> None:
        print(text, flush=True)

    def _say(self, view: View) -> None:
        text = line(view)
        if text != self._said:
            self._said = text
            print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    async def _keep_drawing(self) -> None:
        while True:
            await asyncio.sleep(REDRAW)
            self._draw()

    def _draw(self) -> None:
        assert self._view is not None
        # A line that wraps would not be drawn over.
        widest = shutil.get_terminal_size().columns - 1
        lines = [one[:widest] for one in picture(self._view, time.monotonic() - self._began)]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{text}\n" for text in lines) + "\x1b[J")
        sys.stdout.flush()
        self._drawn = len(lines)
