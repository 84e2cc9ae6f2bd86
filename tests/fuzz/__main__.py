"""python -m tests.fuzz [--requests N] [--resources N] [--compare N] [--seed S]

Prints a JSON report; ends with 1 when anything was found. `--compare` wants a real kube-apiserver:
`python tools/kubernetes/run.py -- .venv/bin/python -m tests.fuzz --compare 5000` starts one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.apiserver import fuzz
from fuzz.comparison import compare
from fuzz.resources import fuzz_resources
from fuzz.reviews import fuzz_reviews
from fuzz.servers import embedded, target_of

KUBECONFIG = "MANTA_CONTRACT_KUBECONFIG"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.fuzz", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--requests", type=int, default=20_000, metavar="N")
    parser.add_argument("--resources", type=int, default=2_000, metavar="N")
    parser.add_argument("--compare", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    report: dict[str, Any] = {"seed": args.seed}
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        if args.requests:
            findings += _requests(args, Path(directory), report)
        if args.compare:
            findings += _compare(args, Path(directory), report)
    if args.resources:
        began = time.monotonic()
        tried, wrong = fuzz_resources(args.seed, args.resources)
        findings += wrong
        report["resources"] = {**tried, "seconds": round(time.monotonic() - began)}
        report["reviews"], wrong = fuzz_reviews(args.seed, args.resources)
        findings += wrong
    report["findings"] = len(findings)
    for one in findings[:100]:
        sys.stderr.write(one + "\n")
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if findings else 0


def _requests(args: argparse.Namespace, directory: Path, report: dict[str, Any]) -> list[str]:
    began = time.monotonic()
    with embedded(directory / "plane", "--fake-nodes=2") as server:
        found, neighbour = asyncio.run(fuzz(server, args.seed, args.requests))
        report["requests"] = {
            "sent": found.requests,
            "answers": dict(found.statuses.most_common()),
            "seconds": round(time.monotonic() - began),
            "server_peak_rss_mib": round(server.peak_mib()),
            "neighbour_p99_seconds": round(neighbour.p99(), 3),
            "neighbour_failures": len(neighbour.failures),
        }
        return found.findings + neighbour.failures[:5]


def _compare(args: argparse.Namespace, directory: Path, report: dict[str, Any]) -> list[str]:
    if not os.environ.get(KUBECONFIG):
        sys.exit(f"--compare: {KUBECONFIG} names the kubeconfig of a real server; see the help")
    real = target_of(Path(os.environ[KUBECONFIG]))
    with embedded(directory / "compared", "--no-controllers") as server:
        found = asyncio.run(compare(server.target, real, args.seed, args.compare))
    report["compared"] = {
        "sent": found.requests,
        "different": dict(found.different.most_common()),
        "different_on_purpose": dict(found.known.most_common()),
    }
    return found.findings + [f"differs: {one}: {found.examples[one]}" for one in found.different]


if __name__ == "__main__":
    sys.exit(main())
