"""What `--record` costs the operator: CPU time and memory, with and without it in turn, in the same run.

RayClusters of one head and three workers are created, scaled up and deleted on fake nodes. The recording of
the last run is replayed, to show that every recorded plan is computed again alike.

    python -m benchmarks.flight_recorder [--count N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.fleet import Fleet, rounded
from benchmarks.operator_process import Phase, an_operator, prepare
from benchmarks.operators import tell
from benchmarks.servers import Running, embedded
from manta.recording.reader import Recorded, files_of, read_recording
from manta.recording.replay import replay

COUNT, ROUNDS, WORKERS, MORE, RATE, NAMESPACES, NODES = 150, 4, 3, 5, 100.0, 5, 20


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def life(fleet: Fleet, count: int) -> None:
    """Create, scale and delete so many clusters."""
    await fleet.create_many(count, WORKERS, RATE, NAMESPACES)
    await fleet.until(lambda: len(fleet.ready) == count)
    keys = list(fleet.ready)
    for key in keys:
        await fleet.scale(key, MORE)
    await fleet.until(lambda: len(fleet.ready) == count)
    for key in keys:
        await fleet.delete(key)
    fleet.ready.clear()


async def measure(server: Running, directory: Path, count: int, rounds: int) -> dict[str, Any]:
    kubeconfig = await prepare(server, directory)
    names = [f"fleet-{number}" for number in range(NAMESPACES)]
    fleet = await Fleet(server.target).open(*names)
    cpu: dict[str, list[float]] = {"without": [], "with": []}
    peak: dict[str, list[float]] = {"without": [], "with": []}
    folder = directory / "recording"
    for number in range(2 * rounds):
        # without, with, with, without, ...: a machine that slows down favours neither
        mode = "with" if number % 4 in (1, 2) else "without"
        flags = (f"--record={folder}",) if mode == "with" else ()
        async with an_operator(kubeconfig, directory / f"{number}.log", *flags) as operator:
            phase = await Phase(operator, server.api_server_pid).begin()
            await life(fleet, count)
            cpu[mode].append(phase.cpu())
            peak[mode].append(phase.peak())
        say(f"{mode}: {cpu[mode][-1]:.2f} s, {peak[mode][-1]:.1f} MiB")
    return rounded(_figures(cpu, peak)) | {"recording": _recording(folder)}


def _figures(cpu: dict[str, list[float]], peak: dict[str, list[float]]) -> dict[str, Any]:
    median = {mode: statistics.median(found) for mode, found in cpu.items()}
    memory = {mode: statistics.median(found) for mode, found in peak.items()}
    return {
        "cpu_seconds_without": median["without"],
        "cpu_seconds_with": median["with"],
        "cpu_percent_more": 100 * (median["with"] / median["without"] - 1),
        "peak_rss_mib_without": memory["without"],
        "peak_rss_mib_with": memory["with"],
        "mib_more": memory["with"] - memory["without"],
    }


def _recording(folder: Path) -> dict[str, Any]:
    files = files_of([folder])
    found = [one for path in files for one in read_recording(path) if isinstance(one, Recorded)]
    return {
        "reconciles": len(found),
        "left_out": sum(int(one.line.get("left_out", 0)) for one in found),
        "mib": round(sum(path.stat().st_size for path in files) / 2**20, 2),
        "same_plan": sum(replay(one).same for one in found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        options = ("--fake-nodes", str(NODES))
        with embedded(directory / "server", *options) as server:
            result = uvloop.run(measure(server, directory, args.count, args.rounds))
    tell(
        **result,
        clusters=args.count,
        rounds=args.rounds,
        load=round(os.getloadavg()[0], 1),
        goal="CPU at most 3 % more, memory at most 20 MiB more, every plan the same",
    )


if __name__ == "__main__":
    main()
