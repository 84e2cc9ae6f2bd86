"""`manta webhook`: refuse invalid Ray objects when they are written, not when they are read.

Takes the operator's flags, and asks as the operator does what the API server offers, so that both
judge alike. Makes and renews its own certificates; needs no cert-manager. Any number of replicas may
run.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from manta.cli.operator_options import Options, add_flags, options_from
from manta.cli.together import until_first_ends
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.errors import CredentialsError

if TYPE_CHECKING:
    from manta.admission.keeper import Keeper
    from manta.admission.server import ReviewServer

log = logging.getLogger(__name__)

NAME = "manta-webhook"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "webhook",
        help="validate Ray objects at admission",
        allow_abbrev=False,
        **examples(
            ("manta webhook", "in a Pod, as `manta install --webhook` starts it"),
            ("manta webhook --listen :9443 --kubeconfig FILE", "elsewhere"),
        ),
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this kubeconfig")
    parser.add_argument("--context", metavar="NAME", help="use this context of it")
    own = parser.add_argument_group("webhook")
    own.add_argument("--listen", default=":9443", metavar="ADDRESS", help="default: :9443")
    own.add_argument("--service", default=NAME, metavar="NAME", help=f"default: {NAME}")
    own.add_argument(
        "--namespace", default="", metavar="NAME", help="of the Service and of the Secret"
    )
    own.add_argument(
        "--secret", default=f"{NAME}-certificates", metavar="NAME", help="keeps the certificates"
    )
    own.add_argument(
        "--configuration", default=NAME, metavar="NAME", help="ValidatingWebhookConfiguration"
    )
    own.add_argument(
        "--host", action="append", default=[], help="another name under which it is reached"
    )
    add_flags(parser)


def run(args: argparse.Namespace) -> int:
    from manta.kube.credentials import discover
    from manta.runtime import logging as logs

    try:
        options = options_from(args, os.environ)
        cluster = discover(args.kubeconfig, args.context, environment=os.environ)
        logs.configure(options.stdout_encoder, options.log_level)
        return asyncio.run(_serve(args, options, cluster))
    except (UsageError, CredentialsError, ValueError) as error:
        print(f"manta webhook: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # an address that is in use, say
        print(f"manta webhook: {error}", file=sys.stderr)
        return 1


async def _serve(args: argparse.Namespace, options: Options, cluster: Cluster) -> int:
    from manta.admission.keeper import Keeper
    from manta.admission.review import review
    from manta.admission.server import ReviewServer
    from manta.api.meta import Key
    from manta.cli.operator_platform import recognise_patiently, settings_on
    from manta.kube.transport import HttpTransport
    from manta.runtime.clock import SystemClock
    from manta.runtime.health import Address

    address = Address.parse(args.listen)
    if address is None:
        raise UsageError("--listen: a webhook must listen somewhere")
    namespace, clock = args.namespace or cluster.namespace or "default", SystemClock()
    client = Client(HttpTransport(cluster, now=clock.now), user_agent=NAME)
    with tempfile.TemporaryDirectory() as directory:
        keeper = Keeper(
            client,
            clock,
            secret=Key(namespace, args.secret),
            configuration=args.configuration,
            names=(*service_names(args.service, namespace), *args.host),
            directory=Path(directory),
        )

        async def open_server() -> ReviewServer:
            platform = await recognise_patiently(client, Random())  # noqa: S311  jitter only
            settings = settings_on(platform, options.settings)
            await keeper.ready.wait()

            def judge(body: bytes) -> bytes:
                return review(body, settings, _log_bug)

            return ReviewServer(address, keeper.context, judge)

        try:
            await _until_told_to_stop(keeper, open_server)
        finally:
            await client.close()
    return 0


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """As API servers call it."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}", service)


async def _until_told_to_stop(
    keeper: Keeper, open_server: Callable[[], Awaitable[ReviewServer]]
) -> None:
    """Serve as soon as there is a certificate to show. The end of either task is the end of all."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    async def serve() -> None:
        server = await open_server()
        telling = asyncio.create_task(_tell(server))
        try:
            await server.run()
        finally:
            telling.cancel()

    tasks = [asyncio.create_task(one) for one in (keeper.run(), serve(), stop.wait())]
    await until_first_ends(tasks)


async def _tell(server: ReviewServer) -> None:
    await server.listening.wait()
    log.info("reviewing on port %d", server.port)


def _log_bug(error: Exception) -> None:
    log.error("an object was refused because its validation raised", exc_info=error)
