"""A dashboard at an address of the user (`--address`, `--headers`, `--verify`)."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from manta.api.usage import UsageError
from manta.cli.plugin.job_environment import json_object
from manta.client.dashboard_access import DashboardAccess
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.http_proxy import is_http_url
from manta.kube.transport import HttpTransport


@asynccontextmanager
async def dashboard_at(args: argparse.Namespace) -> AsyncIterator[DashboardAccess]:
    """The dashboard, with a connection of its own. Raises UsageError for an invalid flag."""
    headers = json_object(args.headers, "--headers")
    if any(not isinstance(value, str) for value in headers.values()):
        raise UsageError("--headers: the values must be texts")
    client = Client(HttpTransport(cluster_at(args.address, args.verify)))
    try:
        yield DashboardAccess(client, headers={n.lower(): v for n, v in headers.items()})
    finally:
        await client.close()


def cluster_at(address: str, verify: str) -> Cluster:
    """Where to connect to, and which CA to trust: `--verify` is true, false, or a CA file.

    Raises UsageError.
    """
    url = address.rstrip("/")
    if not is_http_url(url):
        raise UsageError(f"--address {address!r}: it must be a URL such as http://127.0.0.1:8265")
    if verify.lower() in ("", "true", "1"):
        return Cluster(server=url, origin="--address")
    if verify.lower() in ("false", "0"):
        return Cluster(server=url, origin="--address", insecure=True)
    if not Path(verify).is_file():
        raise UsageError(f"--verify {verify}: neither true nor false nor a file of certificates")
    return Cluster(server=url, origin="--address", ca=Path(verify))
