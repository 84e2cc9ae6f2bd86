"""10,000 reconciles of generated objects, recorded under virtual time and replayed: plans that differ, and speed.

python -m benchmarks.replay [--count N] [--seeds N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks.operators import tell
from manta.recording.replay import replay
from support.recorded import SECRETS, read, record

COUNT, SEEDS = 10_000, 10


def measure(count: int, seed: int) -> Counter[str]:
    """Figures of one user. They are added up."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record(folder, count, seed)
        text = b"".join(path.read_bytes() for path in folder.iterdir())
        found["bytes"] = len(text)
        found["secrets_found"] = sum(one.encode() in text for one in SECRETS)
        for one in read(folder):
            began = time.process_time()
            replayed = replay(one)
            found["replay_microseconds"] += round(1e6 * (time.process_time() - began))
            found["reconciles"] += 1
            found["same"] += replayed.same
            found[one.controller] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    args = parser.parse_args()
    total: Counter[str] = Counter()
    for seed in range(1, args.seeds + 1):
        total += measure(args.count // args.seeds, seed)
        print(f"seed {seed}: {total['same']} of {total['reconciles']}", file=sys.stderr, flush=True)
    figures: dict[str, Any] = dict(total)
    figures["replay_ms_each"] = round(total["replay_microseconds"] / 1000 / total["reconciles"], 3)
    figures["bytes_each"] = round(total["bytes"] / total["reconciles"])
    tell(**figures, goal="every plan the same, no secret found")


if __name__ == "__main__":
    main()
