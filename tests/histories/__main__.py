"""Many histories: `python -m tests.histories --count 1000 [--seed N] [--jobs N] [--durable]`.

Each has a seed of its own, so that a failing one can be run again alone. The servers are forked
from a process that has loaded them once, and live shortly: what is looked for lies around a kill.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from histories.fork_server import ForkServer, a_fork_server
from histories.runner import HistoryResult, Plan, run_history

SHORTEST, LONGEST = 0.2, 0.8
"""Seconds that a server lives before it is killed."""


async def _one(
    seed: int, fork_server: ForkServer, limit: asyncio.Semaphore, args: argparse.Namespace
) -> HistoryResult:
    options = ("--durable",) if args.durable else ()
    if not args.controllers:
        options = (*options, "--no-controllers")
    async with limit:
        with tempfile.TemporaryDirectory() as directory:
            plan = Plan(seed, args.kills, SHORTEST, LONGEST, options)
            result = await run_history(Path(directory), plan, fork_server)
    sys.stdout.write(f"seed {seed}: {result}\n")
    for violation in result.violations[:20]:
        sys.stdout.write(f"  {violation}\n")
    sys.stdout.flush()
    return result


async def _all(args: argparse.Namespace) -> int:
    limit = asyncio.Semaphore(args.jobs)
    seeds = range(args.seed, args.seed + args.count)
    began = time.monotonic()
    async with a_fork_server() as fork_server:
        results = await asyncio.gather(*(_one(seed, fork_server, limit, args) for seed in seeds))
    bad = sum(bool(result.violations) for result in results)
    calls = sum(len(result.history.calls) for result in results)
    kills = args.kills * len(results)
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{len(results)} histories, {kills} kills, {calls} calls, {bad} with violations, "
        f"{seconds:.0f} s\n"
    )
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help="histories at the same time")
    parser.add_argument("--kills", type=int, default=3, help="kill -9 per history")
    parser.add_argument("--durable", action="store_true", help="as `manta apiserver --durable`")
    parser.add_argument("--controllers", action="store_true", help="with the built-in controllers")
    return asyncio.run(_all(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
