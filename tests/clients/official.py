"""Follow ConfigMaps with the official Python client: `official.py KUBECONFIG NAMESPACE`.

Prints `READY`, then a line for each event. Ends when it is killed."""

from __future__ import annotations

import sys

from kubernetes import client, config, watch


def main(kubeconfig: str, namespace: str) -> None:
    config.load_kube_config(kubeconfig)  # type: ignore[no-untyped-call]
    api = client.CoreV1Api()
    version = api.list_namespaced_config_map(namespace).metadata.resource_version  # type: ignore[union-attr]
    sys.stdout.write("READY\n")
    sys.stdout.flush()
    while True:  # the server ends every watch some day; whoever follows goes on where it ended
        for event in watch.Watch().stream(  # type: ignore[no-untyped-call]
            api.list_namespaced_config_map, namespace, resource_version=version
        ):
            found = event["object"].metadata
            version = found.resource_version
            sys.stdout.write(f"{event['type']} {found.name}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
