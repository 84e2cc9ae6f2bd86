"""Follow ConfigMaps with kubernetes_asyncio: `asynchronous.py KUBECONFIG NAMESPACE`.

Prints `READY`, then a line for each event. Ends when it is killed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from kubernetes_asyncio import client, config, watch


async def main(kubeconfig: str, namespace: str) -> None:
    loaded: Any = client.Configuration()
    await config.load_kube_config(kubeconfig, client_configuration=loaded)
    async with client.ApiClient(loaded) as session:
        api = client.CoreV1Api(session)
        version = (await api.list_namespaced_config_map(namespace)).metadata.resource_version
        sys.stdout.write("READY\n")
        sys.stdout.flush()
        while True:  # its connections end after five minutes by themselves
            try:
                async with watch.Watch().stream(
                    api.list_namespaced_config_map, namespace, resource_version=version
                ) as events:
                    async for event in events:
                        found = event["object"].metadata
                        version = found.resource_version
                        sys.stdout.write(f"{event['type']} {found.name}\n")
                        sys.stdout.flush()
            except TimeoutError:
                continue


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
