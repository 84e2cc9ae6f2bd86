"""`manta webhook`: a validating webhook that rejects invalid Ray objects.

It takes the operator's flags and detects the platform as the operator does, so both validate alike. It
issues and renews its own certificates, without cert-manager. Any number of replicas may run.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.errors import CredentialsError
from manta.operator.options import Options, add_flags, options_from
from manta.runtime.process import stop_on_signals, until_first_ends

if TYPE_CHECKING:
    from manta.admission.certificate_manager import CertificateManager
    from manta.admission.server import ReviewServer

log = logging.getLogger(__name__)

NAME = "manta-webhook"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "webhook",
        allow_abbrev=False,
        **examples(
            ("manta webhook", "in a Pod, as `manta install --webhook` starts it"),
            ("manta webhook --listen :9443 --kubeconfig FILE", "outside of a cluster"),
        ),
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this kubeconfig")
    parser.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    own = parser.add_argument_group("webhook")
    own.add_argument("--listen", default=":9443", metavar="ADDRESS", help="default: :9443")
    own.add_argument("--service", default=NAME, metavar="NAME", help=f"default: {NAME}")
    own.add_argument(
        "--namespace", default="", metavar="NAME", help="namespace of the Service and the Secret"
    )
    own.add_argument(
        "--secret",
        default=f"{NAME}-certificates",
        metavar="NAME",
        help="Secret that stores the certificates",
    )
    own.add_argument(
        "--configuration", default=NAME, metavar="NAME", help="ValidatingWebhookConfiguration"
    )
    own.add_argument(
        "--host",
        action="append",
        default=[],
        help="additional name of the webhook in its certificate",
    )
    add_flags(parser)


def run(args: argparse.Namespace) -> int:
    from manta.kube.config import discover
    from manta.runtime import logging as logs

    try:
        options = options_from(args, os.environ)
        cluster = discover(args.kubeconfig, args.context, environment=os.environ)
        logs.configure(options.stdout_encoder, options.log_level)
        return asyncio.run(_serve(args, options, cluster))
    except (UsageError, CredentialsError, ValueError) as error:
        print(f"manta webhook: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # for example an address in use
        print(f"manta webhook: {error}", file=sys.stderr)
        return 1


async def _serve(args: argparse.Namespace, options: Options, cluster: Cluster) -> int:
    from manta.admission.certificate_manager import CertificateManager
    from manta.admission.review import review
    from manta.admission.server import ReviewServer
    from manta.api.meta import Key
    from manta.httpserver.address import listen_address
    from manta.kube.transport import HttpTransport
    from manta.operator.platform import detect_with_retries, settings_on
    from manta.runtime.clock import SystemClock

    address = listen_address("--listen", args.listen, "0.0.0.0:9443")
    namespace, clock = args.namespace or cluster.namespace or "default", SystemClock()
    client = Client(HttpTransport(cluster, now=clock.now), user_agent=NAME)
    with tempfile.TemporaryDirectory() as directory:
        certificates = CertificateManager(
            client,
            clock,
            secret=Key(namespace, args.secret),
            configuration=args.configuration,
            names=(*service_names(args.service, namespace), *args.host),
            directory=Path(directory),
        )

        async def open_server() -> ReviewServer:
            platform = await detect_with_retries(client, Random())  # noqa: S311  jitter only
            settings = settings_on(platform, options.settings)
            await certificates.ready.wait()

            def review_body(body: bytes) -> bytes:
                return review(body, settings, _log_bug)

            return ReviewServer(address, certificates.context, review_body)

        try:
            await _until_stopped(certificates, open_server)
        finally:
            await client.close()
    return 0


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names that API servers use for it."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}", service)


async def _until_stopped(
    certificates: CertificateManager, open_server: Callable[[], Awaitable[ReviewServer]]
) -> None:
    """Serve as soon as there is a certificate, until a signal arrives or a task ends."""
    stop = stop_on_signals()

    async def serve() -> None:
        server = await open_server()
        logging_task = asyncio.create_task(_log_port(server))
        try:
            await server.run()
        finally:
            logging_task.cancel()

    tasks = [asyncio.create_task(one) for one in (certificates.run(), serve(), stop.wait())]
    await until_first_ends(tasks)


async def _log_port(server: ReviewServer) -> None:
    await server.listening.wait()
    log.info("reviewing on port %d", server.port)


def _log_bug(error: Exception) -> None:
    log.error("rejected an object because its validation raised an exception", exc_info=error)
