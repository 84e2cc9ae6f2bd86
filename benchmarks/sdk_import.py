"""What `import manta` costs a program: alone, with the client, and beside the official client."""

from __future__ import annotations

import json
import subprocess
import sys
import time

RUNS = 7


def milliseconds(code: str) -> float:
    """The best of some starts of Python, with the start itself."""
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - began)
    return min(times) * 1000


def main() -> None:
    bare = milliseconds("pass")
    found = {
        "import_manta_ms": milliseconds("import manta") - bare,
        "client_ms": milliseconds("import manta; manta.Client") - bare,
        "official_client_ms": milliseconds("import kubernetes.client, kubernetes.config") - bare,
    }
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


if __name__ == "__main__":
    main()
