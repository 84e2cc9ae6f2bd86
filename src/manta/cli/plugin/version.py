"""`kubectl ray version`: the versions of the plugin and of the operator in the cluster."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from manta import __version__
from manta.api.resources import DEPLOYMENTS
from manta.api.well_known import LABEL_APP_NAME
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, open_client
from manta.kube.errors import MantaError

SELECTOR = f"{LABEL_APP_NAME} in (kuberay-operator,kuberay)"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "version", **examples(("kubectl ray version", "of the plugin and the operator"))
    )
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    """An operator that is not found is a warning, and no error."""
    print(f"kubectl ray plugin version: {__version__}", flush=True)
    try:
        print(f"KubeRay operator version: {asyncio.run(_operator(args))}")
    except MantaError as error:
        print(f"warning: no operator was found: {error}", file=sys.stderr)
    return 0


class NoOperatorError(MantaError):
    """No Deployment has the label of an operator."""


async def _operator(args: argparse.Namespace) -> str:
    async with open_client(args) as client:
        found = (await client.list(DEPLOYMENTS, labels=SELECTOR)).items
    images = [
        container.get("image", "")
        for one in found
        for container in one["spec"]["template"]["spec"].get("containers") or ()
    ]
    if not images:
        raise NoOperatorError(
            f"no Deployment in any namespace has the label {SELECTOR}; the chart sets it "
            "(compatibility.kuberayNames), `manta up` runs its operator as a process"
        )
    return tag_of(images[0])


def tag_of(image: str) -> str:
    """`1.7.0` of `quay.io/kuberay/operator:1.7.0`, with the digest if there is one."""
    bare, _, digest = image.partition("@")
    name, colon, tag = bare.rpartition(":")
    known = tag if colon and "/" not in tag and name else ""
    return "@".join(part for part in (known, digest) if part) or "latest"
