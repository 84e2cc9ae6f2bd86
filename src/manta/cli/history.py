"""`manta history`: logs, tasks and jobs of clusters that are gone."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manta.api.documents.writer import to_yaml
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.server.connection import add_directory_flag, namespace_of
from manta.cli.server.history import add_store_flags, find_session, kind_and_name, open_catalog
from manta.cli.server.history_prune import add_prune_flags, prune

if TYPE_CHECKING:
    from manta.history.index.queries import Filter

FORMATS = ("wide", "json", "yaml")
_FILTERS = {"name": "name", "job": "job_id", "actor": "actor_id", "node": "node_id"}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "history",
        description="Logs, tasks and jobs of Ray clusters that are gone, from the history store.",
        **examples(
            ("manta history list -A", "all sessions that are kept"),
            ("manta history show rayjob/train", "the newest session of a RayJob"),
            ("manta history errors rayjob/train", "failed tasks with their tracebacks"),
            ("manta history tasks rayjob/train --state FAILED", "tasks by state, name or job"),
            ("manta history logs rayjob/train", "the log of the driver"),
            ("manta history logs rayjob/train --task ID", "what one task printed"),
            (
                "manta history open",
                "a link to Ray's dashboard for all of them, on `manta up --history`",
            ),
            ("manta history serve", "the same dashboard for any store, on loopback"),
        ),
    )
    verbs = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = _action(verbs, "list", "the sessions that are kept, newest first", target=False)
    listing.add_argument(
        "target",
        nargs="?",
        default="",
        metavar="KIND[/NAME]",
        help="only these, such as rayjob/train",
    )
    listing.add_argument("-A", "--all-namespaces", action="store_true")
    _action(verbs, "show", "one session in a few numbers")
    tasks = _action(verbs, "tasks", "task attempts, page by page")
    errors = _action(verbs, "errors", "failed tasks with their errors, the first failure first")
    tasks.add_argument("--state", default="", help="only tasks with this state")
    for name, pages in product(_FILTERS, (tasks, errors)):
        pages.add_argument(f"--{name}", default="", help=f"only tasks with this {name}")
    for pages in (tasks, errors):
        pages.add_argument("--limit", type=_count, default=100, metavar="N", help="rows of a page")
        pages.add_argument("--offset", type=_count, default=0, metavar="N", help="rows to skip")
    _add_serve_flags(verbs)
    about = "print a link to the history server of the plane; it can be used once"
    opening = verbs.add_parser("open", help=about, description=about)
    add_directory_flag(opening)
    add_prune_flags(_action(verbs, "prune", "delete old sessions from the store", target=False))
    _add_log_flags(_action(verbs, "logs", "a log file; by default the log of the driver"))


def _add_serve_flags(verbs: Any) -> None:
    about = "serve Ray's dashboard for the sessions that are kept"
    parser = verbs.add_parser("serve", help=about, description=about)
    parser.add_argument(
        "--address",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="default: a free port on loopback, with a token in the printed link",
    )
    parser.add_argument(
        "--kubernetes",
        action="store_true",
        help="callers use their Kubernetes tokens, and see what they may `get` (always, except on loopback)",
    )
    parser.add_argument(
        "--gone-namespaces-group",
        default="",
        metavar="GROUP",
        help="with --kubernetes: members may read the sessions of namespaces that are gone",
    )
    parser.add_argument(
        "--frontend",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="an environment with Ray, whose frontend is served (default: those of `manta up`)",
    )
    parser.add_argument(
        "--dashboards",
        default="",
        metavar="URL",
        help="where browsers reach the dashboard of a running cluster; {namespace} and {name} stand for its own "
        "(default: its head, if this machine reaches it, else the command that opens it)",
    )
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)  # for `manta up`
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, to serve HTTPS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    add_store_flags(parser)


def _add_log_flags(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--file", default="", metavar="PATH", help="a log file, such as raylet.out")
    chosen.add_argument("--task", default="", metavar="ID", help="what this task printed")
    chosen.add_argument("--actor", default="", metavar="ID", help="the log of this actor's worker")
    chosen.add_argument("--pid", type=_count, metavar="PID", help="the log of this process")
    chosen.add_argument("--files", action="store_true", help="list the log files")
    parser.add_argument("--node", default="", metavar="ID", help="node id, address or Pod")
    parser.add_argument("--stderr", action="store_true", help="stderr instead of stdout")
    parser.add_argument("--tail", type=_count, metavar="LINES", help="only the last lines")


def _action(verbs: Any, name: str, about: str, *, target: bool = True) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about)
    if target:
        parser.add_argument(
            "target", metavar="KIND/NAME", help="such as rayjob/train, or rayjob/train/SESSION"
        )
    parser.add_argument("-o", "--output", choices=FORMATS, default="")
    add_store_flags(parser)
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: must not be negative")
    if value >= 2**63:
        raise argparse.ArgumentTypeError(f"{text}: must be less than 2^63")
    return value


def run(args: argparse.Namespace) -> int:
    if args.action == "prune":
        rows = prune(args)
        _print(args, rows, ["session", "bytes", "why"])
        if args.dry_run:
            print(f"{len(rows)} sessions would go; nothing was deleted", file=sys.stderr)
        return 0
    if args.action == "serve":
        from manta.cli.server.history_server import serve

        return serve(args)
    if args.action == "open":
        from manta.cli.plane.history_server import new_link

        print(new_link(args.dir.resolve()))
        return 0
    actions = {"list": _list, "show": _show, "tasks": _tasks, "errors": _errors, "logs": _logs}
    return actions[args.action](args)


# ── actions ──────────────────────────────────────────────────────────────────────────────
def _list(args: argparse.Namespace) -> int:
    with open_catalog(args) as catalog:
        chosen = catalog.namespaces() if args.all_namespaces else [namespace_of(args)]
        kind, name = kind_and_name(args.target)
        keys = [key for one in chosen for key in catalog.sessions(one, kind, name)]
        keys.sort(key=lambda one: one.session, reverse=True)
        rows = []
        for key in keys:
            row = dict(key._asdict())
            if args.output:
                info = catalog.info(key)
                row |= {"cluster": info.cluster, "rayVersion": info.ray_version} if info else {}
            rows.append(row)
    headers = ["namespace", "kind", "name", "session"]
    _print(args, rows, [*headers, *(["cluster", "rayVersion"] if args.output == "wide" else [])])
    return 0


def _show(args: argparse.Namespace) -> int:
    from manta.history.index import queries

    with open_catalog(args) as catalog:
        key = find_session(catalog, args, args.target)
        database = _index(catalog, key)
        found = {**key._asdict(), **queries.summary(database)}
        found["jobs"] = [
            {
                "job_id": one["job_id"],
                "submission_id": one["submission_id"],
                "status": queries.job_status(one),
                "entrypoint": one["command"],
                "started": _time(one["started"]),
                "ended": _time(one["ended"]),
            }
            for one in queries.jobs(database)
        ]
        failed = queries.failed_tasks(database, limit=1)
        found["first_error"] = failed[0]["error_message"] if failed else None
    if args.output in ("json", "yaml"):
        _print(args, found, [])
        return 0
    _print_summary(args, found)
    return 0


def _print_summary(args: argparse.Namespace, found: dict[str, Any]) -> None:
    states = ", ".join(f"{count} {state}" for state, count in found["tasks"].items()) or "none"
    for name, value in {**found, "tasks": states}.items():
        if name not in ("jobs", "first_error"):
            print(f"{name}: {value}")
    if found["jobs"]:
        columns = ("job_id", "submission_id", "status", "started", "ended", "entrypoint")
        print(_table(found["jobs"], columns))
    if found["first_error"]:
        print(f"first error (`manta history errors {args.target}` shows all):")
        print(found["first_error"])


def _tasks(args: argparse.Namespace) -> int:
    from manta.history.index import queries
    from manta.history.index.schema import TASK_STATES

    if args.state and args.state.upper() not in TASK_STATES:
        raise UsageError(f"--state {args.state}: must be one of {', '.join(TASK_STATES)}")
    filters = _filters(args)
    if args.state:
        filters.append(queries.Filter("state", "=", args.state))
    with open_catalog(args) as catalog:
        database = _index(catalog, find_session(catalog, args, args.target))
        page = queries.tasks(
            database,
            filters,
            limit=args.limit,
            offset=args.offset,
            detail=args.output in ("json", "yaml"),
        )
    columns = [
        "task_id",
        "attempt_number",
        "name",
        "state",
        "job_id",
        "start_time_ms",
        "end_time_ms",
    ]
    if args.output == "wide":
        columns += ["type", "node_id", "worker_id", "worker_pid", "error_type"]
    rows = list(page.rows)
    _print(args, rows, columns)
    last = args.offset + len(rows)
    if page.matching > last:
        print(f"{last} of {page.matching} tasks; --offset {last} shows more", file=sys.stderr)
    return 0


def _errors(args: argparse.Namespace) -> int:
    from manta.history.index import queries

    with open_catalog(args) as catalog:
        database = _index(catalog, find_session(catalog, args, args.target))
        found = queries.failed_tasks(database, _filters(args), limit=args.limit, offset=args.offset)
    if args.output in ("json", "yaml"):
        _print(args, found, [])
        return 0
    for one in found:
        at = _time(one["end_time_ms"])
        print(
            f"{one['name']} {one['task_id']} attempt {one['attempt_number']} {at}: {one['error_type']}"
        )
        print(f"{one['error_message']}\n")
    if not found:
        print("No task failed." if not args.offset else "No more failed tasks.")
    elif len(found) == args.limit:
        last = args.offset + len(found)
        print(f"{last} failed tasks; --offset {last} shows more, if any", file=sys.stderr)
    return 0


def _logs(args: argparse.Namespace) -> int:
    from manta.history.logs import LogReader
    from manta.history.task_logs import LogRequest, NoLog, find_log

    with open_catalog(args) as catalog:
        database = _index(catalog, find_session(catalog, args, args.target))
        reader = LogReader(catalog.store, database)
        request = LogRequest(
            node=args.node, file=args.file, task=args.task, actor=args.actor, pid=args.pid,
            suffix="err" if args.stderr else "out",
        )  # fmt: skip
        try:
            if args.files:
                rows = [one._asdict() for one in reader.files(reader.pod_of(args.node))]
                _print(args, rows, ["pod", "path", "size"])
                return 0
            found = find_log(database, reader, request)
        except NoLog as error:
            raise UsageError(str(error)) from error
        write = sys.stdout.buffer.write
        if args.tail is not None:
            write(reader.tail(found.pod, found.path, args.tail, (found.start, found.end)))
        else:
            for part in reader.read(found.pod, found.path, found.start, found.end):
                write(part)
        sys.stdout.flush()
    return 0


# ── helpers ──────────────────────────────────────────────────────────────────────────────
def _filters(args: argparse.Namespace) -> list[Filter]:
    from manta.history.index.queries import Filter

    named = {key: getattr(args, flag) for flag, key in _FILTERS.items()}
    return [Filter(key, "=", value) for key, value in named.items() if value]


def _index(catalog: Any, key: Any) -> Any:
    database = catalog.open_index(key)
    if database is None:
        raise UsageError(f"no session {key.path}: see `manta history list -A`")
    return database


def _print(args: argparse.Namespace, found: Any, columns: Sequence[str]) -> None:
    if args.output == "json":
        print(json.dumps(found, indent=2))
    elif args.output == "yaml":
        print(to_yaml(found).rstrip())
    else:
        print(_table(found, columns))


def _table(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> str:
    cells = [[_cell(name, row.get(name)) for name in columns] for row in rows]
    return table([one.removesuffix("_ms").upper().replace("_", " ") for one in columns], cells)


def _cell(name: str, value: Any) -> str:
    if name.endswith("_ms"):
        return _time(value)
    return "" if value is None else str(value).replace("\n", " ")


def _time(milliseconds: float | None) -> str:
    if not milliseconds:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
