"""`manta collect`: CPU and memory beside a Ray Pod: idle, with events and logs, and with a huge log file.

python -m benchmarks.collector [GIGABYTES]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parents[1] / "tests"
TICKS = os.sysconf("SC_CLK_TCK")


class Sidecar:
    """The process, with a store in a directory."""

    def __init__(self, directory: Path) -> None:
        self.spool, self.logs = directory / "spool", directory / "ray"
        flags = {
            "store": (directory / "store").as_uri(), "root": str(self.logs), "spool": str(self.spool),
            "namespace": "default", "cluster": "demo", "pod": "demo-head", "port": "0", "interval": "2",
        }  # fmt: skip
        words = [word for name, value in flags.items() for word in (f"--{name}", value)]
        command = [sys.executable, "-m", "manta.cli.main", "collect", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def post(self, body: bytes) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/events", data=body)
        urllib.request.urlopen(request).close()

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_mib(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        [found] = [line for line in lines if line.startswith("VmHWM")]
        return round(int(found.split()[1]) / 1024, 1)

    def until_shipped(self) -> None:
        """Until the store has all events and every byte of the logs."""
        while not self._shipped():
            time.sleep(0.2)

    def _shipped(self) -> bool:
        states = list(self.spool.glob("session_*.json"))
        files = [one for state in states for one in json.loads(state.read_text())["files"].values()]
        sizes = {one.stat().st_size for one in self.logs.glob("session_*/logs/*")}
        shipped = all(one["offset"] == one["size"] for one in files)
        seen = sizes <= {one["size"] for one in files}
        return bool(files) and seen and shipped and not list(self.spool.glob("events/*"))

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate()[0].strip().splitlines()[-1]


@contextmanager
def sidecar() -> Iterator[tuple[Sidecar, Path]]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as made:
        own = Sidecar(Path(made))
        try:
            yield own, Path(made)
        finally:
            own.process.kill()
            own.process.wait()


def measured(work: Callable[[Sidecar, Path], None]) -> dict[str, Any]:
    with sidecar() as (own, directory):
        began, before = time.monotonic(), own.cpu_seconds()
        work(own, directory)
        own.until_shipped()
        figures = {
            "seconds": round(time.monotonic() - began, 1),
            "cpu_seconds": round(own.cpu_seconds() - before, 2),
            "peak_mib": own.peak_mib(),
        }
        return {**figures, "said": own.stop()}


def idle(_own: Sidecar, directory: Path) -> None:
    from support.history import write_session

    write_session(directory / "ray", {f"worker-{one}.out": b"x\n" for one in range(100)})
    time.sleep(20)


def busy(own: Sidecar, directory: Path) -> None:
    """20,000 tasks in posts of 1,000 events, and 20 MB of logs."""
    from support.history import generated_lines, write_session

    line = b"a line of a log with a number in it: %08d\n"
    for number, body in enumerate(generated_lines(20_000)):
        own.post(body)
        logs = b"".join(line % one for one in range(number * 4500, (number + 1) * 4500))
        write_session(directory / "ray", {"job-driver.log": logs})


def huge(gigabytes: float) -> Callable[[Sidecar, Path], None]:
    def work(_own: Sidecar, directory: Path) -> None:
        from support.history import write_session

        session = write_session(directory / "ray", {"huge.log": b"x"})
        os.truncate(session / "logs/huge.log", int(gigabytes * 1e9))

    return work


def large_posts(own: Sidecar, directory: Path) -> None:
    """Ten posts of 30 MB, the most that is taken."""
    from support.history import generated_lines, write_session

    write_session(directory / "ray", {"raylet.out": b"x"})
    events = [json.loads(line) for line in generated_lines(8000)]
    body = json.dumps([one for part in events for one in part]).encode()
    body = body if len(body) < 32 * 1024**2 else json.dumps(events[0]).encode()
    for _ in range(10):
        own.post(body)


def main() -> dict[str, Any]:
    sys.path.insert(0, str(SUPPORT))
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    return {
        "idle, 100 files": measured(idle),
        "20,000 tasks and 20 MB of logs": measured(busy),
        "posts of 30 MB": measured(large_posts),
        f"a sparse log of {gigabytes:g} GB": measured(huge(gigabytes)),
    }


if __name__ == "__main__":
    print(json.dumps(main(), indent=2))
