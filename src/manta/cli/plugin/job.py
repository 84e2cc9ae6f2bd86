"""`kubectl ray job submit -- ENTRYPOINT`: the flags. `job_submit.py` does the work."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from manta.cli.output.help import examples
from manta.cli.plugin.create import add_head_flags, add_image_flags, add_worker_flags
from manta.cli.plugin.flags import count
from manta.cli.server.connection import add_connection_flags


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "job",
        **examples(
            (
                "kubectl ray job submit --name train --working-dir . -- python train.py",
                "on a new cluster; prints the log and exits with the code of the job",
            ),
            (
                "kubectl ray job submit -f rayjob.yaml --working-dir . -- python train.py",
                "with your RayJob (InteractiveMode)",
            ),
        ),
    )
    verbs = parser.add_subparsers(dest="what", metavar="COMMAND")
    submit = verbs.add_parser(
        "submit",
        help="submit a job",
        usage="kubectl ray job submit [flags] -- ENTRYPOINT [ARGUMENT ...]",
        description="Create a RayJob, send it the working directory, and follow it. No local Ray "
        "is needed. Ctrl-C leaves the job running.",
        allow_abbrev=False,
    )
    submit.set_defaults(what="submit")
    _add_rayjob(submit.add_argument_group("RayJob", "a file, or a generated RayJob"), submit)
    _add_ray(submit.add_argument_group("Ray", "as in `ray job submit`"))
    add_connection_flags(submit, namespace=True)


def _add_rayjob(group: Any, parser: argparse.ArgumentParser) -> None:
    group.add_argument("-f", "--filename", type=Path, metavar="FILE", help="RayJob as YAML")
    group.add_argument("--name", default="", help="name of the generated RayJob")
    group.add_argument(
        "--ttl-seconds-after-finished",
        type=count,
        metavar="N",
        help="delete the cluster so many seconds after the job",
    )
    group.add_argument("--dry-run", action="store_true", help="only print the generated RayJob")
    add_image_flags(parser)
    add_head_flags(parser)
    add_worker_flags(parser)


def _add_ray(group: Any) -> None:
    group.add_argument("--address", metavar="URL", help="address of the dashboard")
    group.add_argument("--submission-id", default="", metavar="ID", help="default: generated")
    group.add_argument("--runtime-env", type=Path, metavar="FILE", help="runtime env as YAML")
    group.add_argument("--runtime-env-json", default="", metavar="JSON")
    group.add_argument(
        "--working-dir", default="", metavar="DIR", help="directory, zip file or URI to run in"
    )
    group.add_argument("--headers", default="", metavar="JSON", help="HTTP headers for --address")
    group.add_argument(
        "--verify", default="", metavar="VALUE", help="true, false or a CA file for --address"
    )
    group.add_argument("--entrypoint-resources", default="", metavar="JSON")
    group.add_argument("--entrypoint-num-cpus", type=float, default=0.0, metavar="N")
    group.add_argument("--entrypoint-num-gpus", type=float, default=0.0, metavar="N")
    group.add_argument("--entrypoint-memory", type=int, default=0, metavar="BYTES")
    group.add_argument("--metadata-json", default="", metavar="JSON")
    group.add_argument(
        "--log-style", choices=("auto", "record", "pretty"), default="auto", help="of messages"
    )
    group.add_argument(
        "--log-color", choices=("auto", "false", "true"), default="auto", help="of messages"
    )
    group.add_argument("--no-wait", action="store_true", help="do not follow the job")
    group.add_argument("-v", "--verbose", action="store_true", help="say what is sent to Ray")


def run(args: argparse.Namespace) -> int:
    from manta.cli.plugin import job_submit

    return job_submit.run(args)
