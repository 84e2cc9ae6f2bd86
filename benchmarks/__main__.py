"""Run the benchmarks, each in a process of its own; print JSON and keep it in results.json.

python -m benchmarks [NAME ...]       all of them, or these
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
NAMES = (
    "decode",
    "sdk_import",
    "cache_memory",
    "queue_and_loop",
    "operator_idle",
    "cronjobs_idle",
    "apiserver",
    "apiserver_memory",
    "raycluster_fleet",
    "raycluster_latency",
    "rayservice",
    "flight_recorder",
    "replay",
    "kubectl_ray",
    "up",
    "node_agent",
    "ray_start",
    "history",
    "collector",
    "console",
    "console_api",
    "idle",
    "idle_hours",
)


def main(chosen: list[str]) -> int:
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        print(f"no benchmark is called {unknown[0]}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    failed = []
    for name in chosen or NAMES:
        print(f"== {name}", file=sys.stderr, flush=True)
        outcome = measure(name)
        if outcome is None:
            failed.append(name)
            continue
        results[name] = outcome
        print(json.dumps({name: outcome}, indent=2), flush=True)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def measure(name: str) -> dict[str, Any] | None:
    """A process of its own, so that memory and caches of one do not colour the next."""
    run = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE.parent,
        check=False,
    )
    if run.returncode:
        return None
    measured = json.loads(run.stdout)
    return {**measured, "when": _now(), "machine": f"{os.cpu_count()} cores, {platform.machine()}"}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
