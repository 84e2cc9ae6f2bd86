"""`manta usage`: CPU- and GPU-hours of Ray clusters that are watched for idleness, used and idle.

The figures are on the RayClusters themselves: those of a deleted cluster are gone. A metrics server keeps them longer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from manta.api.conditions import find
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.server.ages import parse_age
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.rules.usage import KEPT_DAYS, Hours, sum_of, totals, usage_of
from manta.runtime.clock import SystemClock

BY = ("cluster", "namespace", "user")
HEADER = ("USED CPU-H", "IDLE CPU-H", "USED GPU-H", "IDLE GPU-H")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "usage",
        description="Show CPU- and GPU-hours of Ray clusters with a limit of idleness, used and idle.",
        **examples(
            ("manta usage", "of the last 7 days, by cluster"),
            ("manta usage -A --by namespace --since 30d", "of all namespaces"),
            (
                "manta usage -A --by team --price-cpu 0.04 --price-gpu 2.5",
                "by a label, with prices",
            ),
        ),
    )
    parser.add_argument(
        "--since",
        default="7d",
        metavar="DURATION",
        help="such as 7d; the first day (UTC) counts as a whole",
    )
    parser.add_argument(
        "--by",
        default="cluster",
        metavar="WHAT",
        help=f"{', '.join(BY)}, or a label of RayClusters",
    )
    parser.add_argument("--price-cpu", type=float, metavar="PRICE", help="of one CPU for one hour")
    parser.add_argument("--price-gpu", type=float, metavar="PRICE", help="of one GPU for one hour")
    parser.add_argument("-o", "--output", choices=("", "json"), default="")
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    since = timedelta(seconds=parse_age("--since", args.since))
    if since > timedelta(days=KEPT_DAYS):
        raise UsageError(f"--since {args.since}: the figures of {KEPT_DAYS} days are kept")
    for name, price in (("--price-cpu", args.price_cpu), ("--price-gpu", args.price_gpu)):
        if price is not None and not 0 <= price < math.inf:
            raise UsageError(f"{name} {price:g}: must be a number that is not negative")
    return asyncio.run(_show(args, since))


async def _show(args: argparse.Namespace, since: timedelta) -> int:
    async with open_client(args) as client:
        where = "" if args.all_namespaces else namespace_of(args)
        found = (await client.list(RAY_CLUSTERS, where, into=RayCluster)).items
    now = SystemClock().now()
    clusters = [(one.metadata, known) for one in found if (known := usage_of(one.metadata))]
    rows = totals(clusters, args.by, now - since, now)
    prices = (args.price_cpu, args.price_gpu)
    if args.output == "json":
        print(json.dumps([document(who, hours, prices) for who, hours in rows.items()], indent=2))
    elif rows:
        print(report(args.by, rows, prices))
    else:
        print(why_nothing(found))
    return 0


def why_nothing(clusters: Sequence[RayCluster]) -> str:
    """Why there are no figures of these clusters: they begin with the first answer of Ray."""
    for one in clusters:
        if find(one.status.conditions, ClusterConditionType.IDLE) is not None:
            return f"No figures yet: the condition Idle of RayCluster {one.metadata.key} says why."
    return "No RayCluster is watched for idleness: see docs/guide/idle.md."


Prices = tuple[float | None, float | None]


def costs(hours: Hours, prices: Prices) -> tuple[float, float] | None:
    """The costs of all hours, and of the idle ones; None without prices."""
    cpu, gpu = prices
    if cpu is None and gpu is None:
        return None
    idle = hours.idle_cpu * (cpu or 0) + hours.idle_gpu * (gpu or 0)
    return idle + hours.used_cpu * (cpu or 0) + hours.used_gpu * (gpu or 0), idle


def report(by: str, rows: dict[str, Hours], prices: Prices) -> str:
    priced = costs(Hours(), prices) is not None
    header = (by.upper(), *HEADER, *(("COST", "IDLE COST") if priced else ()))
    lines = [_line(who or "-", hours, prices) for who, hours in rows.items()]
    if len(rows) > 1:
        lines.append(_line("all", sum_of(rows.values()), prices))
    return table(header, lines)


def _line(who: str, hours: Hours, prices: Prices) -> Sequence[str]:
    values = (hours.used_cpu, hours.idle_cpu, hours.used_gpu, hours.idle_gpu)
    shown = [f"{value:.1f}" for value in values]
    return (who, *shown, *(f"{cost:.2f}" for cost in costs(hours, prices) or ()))


def document(who: str, hours: Hours, prices: Prices) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": who,
        "usedCpuHours": round(hours.used_cpu, 4),
        "idleCpuHours": round(hours.idle_cpu, 4),
        "usedGpuHours": round(hours.used_gpu, 4),
        "idleGpuHours": round(hours.idle_gpu, 4),
    }
    if (cost := costs(hours, prices)) is not None:
        found |= {"cost": round(cost[0], 2), "idleCost": round(cost[1], 2)}
    return found
