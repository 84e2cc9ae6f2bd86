"""Where the dashboards of running clusters are, for the page of `manta history serve`.

On Kubernetes the clusters are listed with the caller's own token: the server itself may read no Ray object.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace

from manta.api.ray.cluster import RayCluster
from manta.api.usage import UsageError
from manta.cli.dashboard import answers_at
from manta.cli.server.connection import open_client
from manta.cli.server.local_proxy import DASHBOARD_PORT
from manta.client.connection import NoServerError
from manta.history.serve.overview import Live, LiveCluster, running_clusters
from manta.kube.client import Client
from manta.kube.cluster import Cluster, User
from manta.kube.transport import HttpTransport

_SECONDS = 4.0


def check_dashboards(template: str) -> None:
    """Raises UsageError if it is no URL with these two names."""
    if not template:
        return
    try:
        url = template.format(namespace="a", name="b")
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise UsageError(
            f"--dashboards {template}: only {{namespace}} and {{name}} can be filled in ({error})"
        ) from error
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--dashboards {template}: must begin with http:// or https://")


def live_of_callers(cluster: Cluster, template: str) -> Live:
    async def live(token: str, namespaces: Sequence[str]) -> list[LiveCluster]:
        own = replace(cluster, user=User("the caller of the history server", token=token))
        async with Client(HttpTransport(own), timeout=_SECONDS) as client:
            found = await running_clusters(client, namespaces)
        return [_linked(one, _filled(template, one), "kubectl ray session") for one in found]

    return live


def live_of_owner(args: argparse.Namespace) -> Live:
    where = f" --dir {args.dir}" if getattr(args, "dir_given", False) else ""

    async def live(_token: str, namespaces: Sequence[str]) -> list[LiveCluster]:
        try:
            async with open_client(args) as client:
                found = await running_clusters(client, namespaces)
        except NoServerError:  # a store alone
            return []
        urls = [_filled(args.dashboards, one) for one in found]
        if not args.dashboards:
            urls = await asyncio.gather(*map(_reached, found))
        command = f"manta dashboard{where}"
        return [_linked(one, url, command) for one, url in zip(found, urls, strict=True)]

    return live


async def _reached(one: RayCluster) -> str:
    """The address of the head, if Ray answers there from this machine."""
    address = one.status.head.pod_ip
    reached = bool(address) and await asyncio.to_thread(answers_at, address)
    return f"http://{address}:{DASHBOARD_PORT}/" if reached else ""


def _filled(template: str, one: RayCluster) -> str:
    return template.format(namespace=one.metadata.namespace, name=one.metadata.name)


def _linked(one: RayCluster, url: str, command: str) -> LiveCluster:
    meta = one.metadata
    return LiveCluster(meta.namespace, meta.name, url, f"{command} {meta.name} -n {meta.namespace}")
