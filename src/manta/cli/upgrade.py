"""`manta upgrade NAME [--image IMAGE] [--watch]`: start an upgrade of a RayService, and watch it.
`manta upgrade promote|pause|resume|abort NAME`: steer a canary.

On a terminal it draws bars of traffic and capacity for each cluster; elsewhere it prints one line for
each change. It ends when the upgrade is complete or failed, or after the timeout.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.output.upgrade_view import line, picture
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.client.canary import VERBS, steer
from manta.client.upgrade_state import Stage, View, view_of
from manta.client.upgrades import image_operations
from manta.client.watch import states
from manta.kube.client import Client

REDRAW_SECONDS = 1.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "upgrade",
        **examples(
            (
                "manta upgrade echo --image rayproject/ray:2.60.0 --watch",
                "a new image, without downtime",
            ),
            ("manta upgrade echo --watch", "watch a running upgrade"),
            ("manta upgrade promote echo", "begin the next step of a canary"),
            ("manta upgrade abort echo", "send all requests back to the old cluster"),
        ),
    )
    parser.add_argument(
        "name",
        nargs="+",
        metavar="[promote|pause|resume|abort] NAME",
        help="the RayService: NAME or rayservice/NAME; the words before it steer a canary",
    )
    parser.add_argument("--all", action="store_true", help="with promote: no further step waits")
    parser.add_argument("--image", metavar="IMAGE", help="new image of every Ray container")
    parser.add_argument(
        "--ray-version", metavar="VERSION", help="Ray version of the image, such as 2.60.0"
    )
    parser.add_argument("--watch", action="store_true", help="watch until it is complete or failed")
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800,
        metavar="SECONDS",
        help="time to watch (default: 1800)",
    )
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    if args.timeout <= 0:
        raise UsageError(f"--timeout {args.timeout:g}: must be more than 0 seconds")
    if args.ray_version and not args.image:
        raise UsageError("--ray-version needs --image")
    verb = _verb(args)
    return asyncio.run(_upgrade(args, verb))


def _verb(args: argparse.Namespace) -> str:
    """The word that steers a canary; empty if there is none. A RayService may have the name of a verb."""
    *words, name = args.name
    verb = " ".join(words)
    if verb and verb not in VERBS:
        known = ", ".join(VERBS)
        raise UsageError(f"manta upgrade {verb} {name}: the word before the name is one of {known}")
    if verb and args.image:
        raise UsageError(f"--image: leave it out with {verb}")
    if args.all and verb != "promote":
        raise UsageError("--all needs promote: manta upgrade promote NAME --all")
    return verb


async def _upgrade(args: argparse.Namespace, verb: str) -> int:
    key = Key(namespace_of(args), args.name[-1].rpartition("/")[2])
    async with open_client(args) as client:
        if verb:
            print(await steer(client, key, verb, every_step=args.all), flush=True)
            if not args.watch:
                return 0
        if args.image:
            await _set_image(client, key, args.image, args.ray_version)
        if args.watch:
            screen = Screen(live=sys.stdout.isatty())
            return await watch(client, key, screen, args.timeout)
        service = await client.get(RAY_SERVICES, key, into=RayService)
        print("\n".join(picture(view_of(service), 0.0)))
    return 0


async def _set_image(client: Client, key: Key, image: str, version: str | None) -> None:
    """Set the image of the first container of every group. The patch fails on a concurrent change."""
    document = await client.get(RAY_SERVICES, key)
    unchanged = {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": document["metadata"]["resourceVersion"],
    }
    patch = [unchanged, *image_operations(document["spec"]["rayClusterConfig"], image, version)]
    await client.patch(RAY_SERVICES, key, patch, kind="json")
    print(f"rayservice/{key.name}: image set to {image}", flush=True)


async def watch(client: Client, key: Key, screen: Screen, seconds: float) -> int:
    """0: the upgrade is complete. 1: it failed, or took too long."""
    view: View | None = None
    try:
        async with asyncio.timeout(seconds):
            async for view in _views(client, key):
                screen.show(view)
                if view.stage.is_last:
                    break
    except TimeoutError:
        waits_for = view.waits_for if view else "the server"
        screen.end(f"not complete within {seconds:g} s; waits for: {waits_for}")
        return 1
    finally:
        screen.close()
    assert view is not None
    screen.end(view.verdict)
    return 0 if view.stage is Stage.COMPLETE else 1


async def _views(client: Client, key: Key) -> AsyncIterator[View]:
    """Yield the service after each change. Raises MantaError if it is deleted."""
    async with aclosing(states(client, RAY_SERVICES, key)) as found:
        async for document in found:
            yield view_of(msgspec.convert(document, RayService))


class Screen:
    """Redraws the picture on a terminal; elsewhere prints each change once."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._began = time.monotonic()
        self._drawn = 0
        self._printed = ""
        self._view: View | None = None
        self._clock: asyncio.Task[None] | None = None

    def show(self, view: View) -> None:
        self._view = view
        if not self._live:
            self._print(view)
            return
        self._draw()
        if self._clock is None:
            self._clock = asyncio.create_task(self._keep_drawing())

    def close(self) -> None:
        if self._clock is not None:
            self._clock.cancel()

    def end(self, text: str) -> None:
        print(text, flush=True)

    def _print(self, view: View) -> None:
        text = line(view)
        if text != self._printed:
            self._printed = text
            print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    async def _keep_drawing(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_SECONDS)
            self._draw()

    def _draw(self) -> None:
        assert self._view is not None
        # Cut long lines: a wrapped line would not be overwritten.
        widest = shutil.get_terminal_size().columns - 1
        lines = [one[:widest] for one in picture(self._view, time.monotonic() - self._began)]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{text}\n" for text in lines) + "\x1b[J")
        sys.stdout.flush()
        self._drawn = len(lines)
