"""Many upgrades under load: `python -m tests.e2e.upgrades [--count 10] [--strategy NewCluster]`.

On a plane of its own with real Ray Serve. In three of the upgrades something goes wrong on purpose: the
head of the serving cluster is killed, the operator is killed -9, the dashboard freezes for 20 s. Prints
one JSON line per upgrade and one at the end; exit code 1 when a single request failed. Minutes per
upgrade: `make upgrades`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.conftest import Machine, why_not
from e2e.serving import FAULTS, INCREMENTAL, NEW_CLUSTER, Life, Served, Traffic


def planned(count: int, faults: list[str]) -> list[str]:
    """One fault each, spread over the upgrades; the first upgrade is without."""
    every = [""] * count
    for number, fault in enumerate(faults):
        at = min(1 + number * max(count // max(len(faults), 1), 1), count - 1)
        every[at] = fault
    return every


def run(machine: Machine, strategy: str, faults: list[str]) -> dict[str, Any]:
    served = Served(strategy)
    life, traffic = Life(machine, served), Traffic(machine, served)
    life.start()
    traffic.start()
    try:
        for fault in faults:
            took = life.upgrade(fault)
            _print(upgrade=life.edition, fault=fault, seconds=round(took, 1), **traffic.so_far())
        seen = traffic.stop()
    finally:
        traffic.kill()
    life.end()
    return {
        "strategy": strategy,
        "upgrades": len(faults),
        "requests": sum(one["requests"] for one in seen.values()),
        "failed": {who: one["failed"] for who, one in seen.items()},
        "failures": [text for one in seen.values() for text in one["failures"]],
        "longest_seconds": max(one["longest_seconds"] for one in seen.values()),
        "most_clusters": life.most_clusters,
    }


def _print(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10)
    strategies = (NEW_CLUSTER, INCREMENTAL)
    parser.add_argument("--strategy", choices=strategies, action="append")
    parser.add_argument("--faults", default=",".join(FAULTS), help="which, in this order")
    parser.add_argument("--logs", type=Path, help="keep the plane's logs here")
    args = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    failed = 0
    for strategy in args.strategy or strategies:
        with tempfile.TemporaryDirectory(prefix="m") as directory:
            machine = Machine(Path(directory))
            machine.manta("up", "--cpus", "8")
            try:
                faults = [one for one in args.faults.split(",") if one]
                result = run(machine, strategy, planned(args.count, faults))
            finally:
                if args.logs:
                    args.logs.mkdir(parents=True, exist_ok=True)
                    (args.logs / f"{strategy}.log").write_text(machine.logs())
                machine.manta("down", "--purge", check=False)
        _print(**result)
        failed += sum(result["failed"].values())
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.pop("KUBECONFIG", None)
    sys.exit(main())
