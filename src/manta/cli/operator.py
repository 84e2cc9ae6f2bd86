"""`manta operator`: run the controllers against a Kubernetes API server."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.kube.errors import CredentialsError
from manta.operator.options import add_flags, options_from
from manta.operator.process import configure_logs, configure_tracing, log, operate
from manta.runtime import tracing
from manta.runtime.process import loop_factory


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "operator",
        allow_abbrev=False,
        **examples(
            ("manta operator", "for the cluster of the kubeconfig, or of its Pod"),
            ("manta operator --watch-namespace a,b", "only for some namespaces"),
            ("manta operator --feature-gates RayClusterMTLS=true", "with other features"),
            ("manta operator --record DIR", "keep the last reconciles for manta replay"),
        ),
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this kubeconfig")
    parser.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    add_flags(parser)


def run(args: argparse.Namespace) -> int:
    from manta.kube.config import discover

    try:
        options = options_from(args, os.environ)
        cluster = discover(args.kubeconfig, args.context, environment=os.environ)
        configure_logs(options)
        configure_tracing(options, os.environ)
    except (UsageError, CredentialsError) as error:
        print(f"manta operator: {error}", file=sys.stderr)
        return 2
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(operate(cluster, options))
    except (CredentialsError, UsageError) as error:  # for example an invalid file in the kubeconfig
        print(f"manta operator: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # for example an address in use
        log.error("cannot run: %s", error)
        return 1
    finally:
        tracing.shutdown()
