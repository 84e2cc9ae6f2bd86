"""Many histories: `python -m tests.histories --count 1000 [--seed N] [--jobs N] [--durable]`.

Each has a seed of its own, so that a failing one can be run again alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from histories.runner import Plan, Told, run_history


async def _one(seed: int, limit: asyncio.Semaphore, args: argparse.Namespace) -> Told:
    options = ("--durable",) if args.durable else ()
    if not args.controllers:
        options = (*options, "--no-controllers")
    async with limit:
        with tempfile.TemporaryDirectory() as directory:
            told = await run_history(Path(directory), Plan(seed, kills=args.kills, options=options))
    sys.stdout.write(f"seed {seed}: {told}\n")
    for violation in told.violations[:20]:
        sys.stdout.write(f"  {violation}\n")
    sys.stdout.flush()
    return told


async def _all(args: argparse.Namespace) -> int:
    limit = asyncio.Semaphore(args.jobs)
    seeds = range(args.seed, args.seed + args.count)
    results = await asyncio.gather(*(_one(seed, limit, args) for seed in seeds))
    bad = sum(bool(told.violations) for told in results)
    calls = sum(len(told.history.calls) for told in results)
    sys.stdout.write(f"{len(results)} histories, {calls} calls, {bad} with violations\n")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="histories at the same time")
    parser.add_argument("--kills", type=int, default=3, help="kill -9 per history")
    parser.add_argument("--durable", action="store_true", help="as `manta apiserver --durable`")
    parser.add_argument("--controllers", action="store_true", help="with the built-in controllers")
    return asyncio.run(_all(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
