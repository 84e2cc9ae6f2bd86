"""`python -m tests.chaos --cycles 50`: kill planes at random until one leaves something behind.

Prints one line a cycle and JSON at the end; exit code 1 when anything leaked, or when no plane took the
Pods. The same seed kills the same sorts of parts in the same order; the moments are the machine's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1])]

from chaos.cycle import Cycle  # noqa: E402 - found on the path above


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first cycle")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--ray-every", type=int, default=10, help="cycles with a real RayCluster; 0: none"
    )
    options = parser.parse_args()
    leaks = {}
    applied = 0
    began = time.monotonic()
    for number in range(options.first, options.first + options.cycles):
        with tempfile.TemporaryDirectory(prefix="manta-chaos-") as place:
            ray = bool(options.ray_every) and number % options.ray_every == options.ray_every - 1
            cycle = Cycle(Path(place) / "plane", Random(f"{options.seed}/{number}"), ray)
            left = cycle.run()
            applied += cycle.applied
        sys.stdout.write(f"cycle {number}: {'; '.join(left) or 'nothing left'}\n")
        sys.stdout.flush()
        if left:
            leaks[number] = {"left": left, "story": cycle.story}
    seconds = round(time.monotonic() - began)
    result = {"cycles": options.cycles, "applied": applied, "seconds": seconds, "leaks": leaks}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if leaks or not applied else 0


if __name__ == "__main__":
    sys.exit(main())
