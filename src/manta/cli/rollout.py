"""`manta rollout status|history|undo|pause|resume NAME`: follow and steer the rolling update of a RayCluster.

The verbs and their output are those of `kubectl rollout`, which knows no RayClusters.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from manta.api.conditions import find
from manta.api.documents.writer import to_yaml
from manta.api.meta import Condition, Key
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.ray_targets import parse_target
from manta.client.rollouts import Revision, history, set_paused, undo
from manta.client.watch import states
from manta.kube.client import Client
from manta.rules.rolling_update import rolling_update

COMPLETE = frozenset({"Complete"})
FAILED = frozenset(
    {"ProgressDeadlineExceeded", "RolledBack", "NeedsRecreate", "Held", "RevisionsUnreadable"}
)

INVALID = "Invalid"
"""How the reasons of `Blocked` begin if the spec is invalid."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "rollout",
        **examples(
            ("manta rollout status demo", "follow a rolling update to its end"),
            ("manta rollout history demo", "the last revisions, and what they changed"),
            ("manta rollout undo demo --to-revision 3", "put an earlier spec back"),
            ("manta rollout pause demo", "replace no more Pods until resume"),
        ),
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    status = _action(actions, "status", "say how far the update is, until it ends")
    status.add_argument(
        "--timeout", type=float, default=0, metavar="SECONDS", help="0 (default): no limit"
    )
    status.add_argument(
        "--no-watch", action="store_true", help="print the state of now, and end with its code"
    )
    past = _action(actions, "history", "list the recorded revisions")
    past.add_argument("--revision", type=int, default=0, metavar="N", help="show one of them")
    back = _action(actions, "undo", "put the templates of an earlier revision back into the spec")
    back.add_argument(
        "--to-revision", type=int, default=0, metavar="N", help="0 (default): the one before"
    )
    _action(actions, "pause", "replace no more Pods")
    _action(
        actions,
        "resume",
        "go on after a pause, or try a revision again that stopped or was given up",
    )


def _action(actions: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=about, description=f"{about[:1].upper()}{about[1:]}."
    )
    parser.add_argument("target", metavar="NAME", help="the RayCluster: NAME or raycluster/NAME")
    add_connection_flags(parser, namespace=True)
    return parser


def run(args: argparse.Namespace) -> int:
    if args.action == "status" and args.timeout < 0:
        raise UsageError(f"--timeout {args.timeout:g}: must be 0 (no limit) or more seconds")
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    key = parse_target(args.target, namespace_of(args), (RAY_CLUSTERS,)).key
    async with open_client(args) as client:
        match args.action:
            case "status":
                return await follow(client, key, args.timeout, watch=not args.no_watch)
            case "history":
                print(printed(await history(client, key), args.revision))
            case "undo":
                print(await undo(client, key, args.to_revision))
            case action:
                print(await set_paused(client, key, paused=action == "pause"))
    return 0


# ── history ──────────────────────────────────────────────────────────────────────────────


def printed(revisions: list[Revision], number: int = 0) -> str:
    """All revisions as a table; one of them in full. Raises UsageError."""
    if not number:
        rows = [(one.number, one.state or "-", one.cause) for one in revisions]
        return table(("REVISION", "STATE", "CHANGE-CAUSE"), rows)
    found = next((one for one in revisions if one.number == number), None)
    if found is None:
        known = ", ".join(str(one.number) for one in revisions)
        raise UsageError(
            f"--revision {number}: there is no such revision; known: {known or 'none'}"
        )
    changes = [f"# {change}" for change in found.changes]
    failure = [f"# given up: {found.failure}"] if found.failure else []
    return "\n".join([*failure, *changes, to_yaml(dict(found.data)).rstrip()])


# ── status ───────────────────────────────────────────────────────────────────────────────


async def follow(client: Client, key: Key, seconds: float = 0, *, watch: bool = True) -> int:
    """0: complete. 1: it stopped, was rolled back, or took too long."""
    printed_last = ""
    try:
        async with asyncio.timeout(seconds or None):
            async for found in _conditions(client, key):
                if found is not None and found.message != printed_last:
                    printed_last = found.message
                    print(f"raycluster/{key.name}: {found.message}", flush=True)
                reason = found.reason if found is not None else ""
                is_over = reason in COMPLETE | FAILED or reason.startswith(INVALID)
                if is_over or not watch:
                    return 0 if reason in COMPLETE else 1
    except TimeoutError:
        print(f"raycluster/{key.name}: not complete within {seconds:g} s", file=sys.stderr)
    return 1


async def _conditions(client: Client, key: Key) -> AsyncIterator[Condition | None]:
    """The condition after each change; None until the operator has seen the last edit."""
    cluster = await client.get(RAY_CLUSTERS, key, into=RayCluster)
    if rolling_update(cluster) is None:
        raise UsageError(f"raycluster/{key.name}: spec.upgradeStrategy.type is not RollingUpdate")
    async with aclosing(states(client, RAY_CLUSTERS, key)) as found:
        async for document in found:
            yield _condition(msgspec.convert(document, RayCluster))


def _condition(cluster: RayCluster) -> Condition | None:
    if cluster.status.observed_generation != cluster.metadata.generation:
        return None
    conditions = cluster.status.conditions
    blocked = find(conditions, ClusterConditionType.BLOCKED)
    if blocked is not None and blocked.reason.startswith(INVALID):
        return blocked  # the edit was not taken: the other condition is about the spec before it
    return find(conditions, ClusterConditionType.ROLLING_UPDATE)
