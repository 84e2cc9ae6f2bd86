"""A plane of this machine in a directory of its own, for benchmarks that need real Pods."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.connect import connect

_COMMAND = [sys.executable, "-m", "manta.cli.main"]


def command(directory: Path, verb: str, *arguments: str) -> list[str]:
    """To be run without KUBECONFIG."""
    return [*_COMMAND, verb, "--dir", str(directory), *arguments]


def manta(directory: Path, verb: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    done = subprocess.run(
        command(directory, verb, *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


@contextmanager
def plane_directory() -> Iterator[Path]:
    """Whatever is started in it is taken down at the end."""
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as place:
        directory = Path(place) / "plane"
        try:
            yield directory
        finally:
            manta(directory, "down", "--purge")


@asynccontextmanager
async def client_of(directory: Path) -> AsyncIterator[Client]:
    client = await connect(load(directory / "kubeconfig"))
    try:
        yield client
    finally:
        await client.close()


async def seconds_until(client: Client, resource: Resource, key: Key, wanted: Any) -> float:
    """How long until the object looks as wanted."""
    began = time.perf_counter()
    while True:
        watch = client.watch(resource, key.namespace, into=dict, fields=f"metadata.name={key.name}")
        async for event in watch:
            if event.type in ("ADDED", "MODIFIED") and wanted(event.object):
                return time.perf_counter() - began
