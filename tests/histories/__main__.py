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

from histories.nursery import Nursery, a_nursery
from histories.runner import Plan, Told, run_history

SHORTEST, LONGEST = 0.2, 0.8
"""Seconds that a server lives before it is killed."""


async def _one(
    seed: int, nursery: Nursery, limit: asyncio.Semaphore, args: argparse.Namespace
) -> Told:
    options = ("--durable",) if args.durable else ()
    if not args.controllers:
        options = (*options, "--no-controllers")
    async with limit:
        with tempfile.TemporaryDirectory() as directory:
            plan = Plan(seed, args.kills, SHORTEST, LONGEST, options)
            told = await run_history(Path(directory), plan, nursery)
    sys.stdout.write(f"seed {seed}: {told}\n")
    for violation in told.violations[:20]:
        sys.stdout.write(f"  {violation}\n")
    sys.stdout.flush()
    return told


async def _all(args: argparse.Namespace) -> int:
    limit = asyncio.Semaphore(args.jobs)
    seeds = range(args.seed, args.seed + args.count)
    began = time.monotonic()
    async with a_nursery() as nursery:
        results = await asyncio.gather(*(_one(seed, nursery, limit, args) for seed in seeds))
    bad = sum(bool(told.violations) for told in results)
    calls = sum(len(told.history.calls) for told in results)
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
