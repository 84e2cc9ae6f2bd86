"""History: one million tasks indexed, paged and served.

python -m benchmarks.history [TASKS]
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from manta.history.catalog import Catalog
from manta.history.layout import event_key
from manta.history.ship import SessionShipper
from manta.history.store import open_store

SUPPORT = Path(__file__).parents[1] / "tests"
PAGES = 300


def fill(directory: Path, tasks: int) -> str:
    """A store with a session of this many generated tasks; its URL."""
    sys.path.insert(0, str(SUPPORT))
    from support.history import SESSION, WHO, generated_lines, write_session

    store = open_store((directory / "store").as_uri(), {})
    session = write_session(directory / "ray", {"raylet.out": b"x\n"})
    SessionShipper(store, WHO, session, directory / "state").ship()
    part: list[bytes] = []
    for number, line in enumerate(generated_lines(tasks)):
        part.append(line)
        if len(part) == 25 or (number + 1) * 200 >= tasks:
            key = event_key(WHO.session(SESSION), WHO.pod, f"{number:09d}")
            store.create(key, gzip.compress(b"".join(part), 1))
            part.clear()
    return store.url


def peak_mib() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


async def serve(url: str, directory: Path, tasks: int) -> dict[str, Any]:
    """Index the session, then ask for pages. Runs in a process of its own, whose peak memory counts."""
    from manta.history.serve.access import OneToken
    from manta.history.serve.server import HistoryHandler
    from manta.httpserver.messages import HttpRequest

    access = OneToken()
    catalog = Catalog(open_store(url, {}), directory / "cache")
    began, cpu = time.monotonic(), time.process_time()
    [key] = catalog.sessions("default")
    index = catalog.open_index(key)
    assert index is not None
    indexed, indexed_cpu = time.monotonic() - began, time.process_time() - cpu
    [file] = (directory / "cache").glob("*.db")
    handler = HistoryHandler(catalog, access, [], secure=False)
    headers = {"authorization": f"Bearer {access.token}"}
    dice = random.Random(1)
    found: dict[str, list[float]] = {}

    async def ask(name: str, path: str, *query: tuple[str, str]) -> None:
        request = HttpRequest("GET", f"/history/{key.path}/{path}", query, headers)
        start = time.monotonic()
        response = await handler.handle(request)
        if not isinstance(response.body, bytes):
            async for _ in response.body:
                pass
        found.setdefault(name, []).append(time.monotonic() - start)
        assert response.status == 200, response.body

    def only(name: str, value: str) -> tuple[tuple[str, str], ...]:
        return (("filter_keys", name), ("filter_predicates", "="), ("filter_values", value))

    for _ in range(PAGES):
        number = dice.randrange(tasks)
        task = (number.to_bytes(8, "big") + b"\xff" * 12 + b"\x01\0\0\0").hex()
        await ask("100 tasks, detail", "api/v0/tasks", ("detail", "1"), ("limit", "100"))
        await ask("one task", "api/v0/tasks", ("detail", "1"), *only("task_id", task))
        await ask("summary", "api/v0/tasks/summarize")
        await ask("jobs", "api/jobs/")
    for _ in range(PAGES // 10):
        await ask("failed tasks", "api/v0/tasks", ("detail", "1"), *only("state", "FAILED"))
        name = f"f{dice.randrange(20)}"
        await ask("100 tasks by name", "api/v0/tasks", ("limit", "100"), *only("name", name))
    for _ in range(5):
        await ask("10,000 tasks, detail", "api/v0/tasks", ("detail", "1"), ("limit", "10000"))
    return {
        "tasks": tasks,
        "index_seconds": round(indexed, 1),
        "index_cpu_seconds": round(indexed_cpu, 1),
        "index_bytes_per_task": round(file.stat().st_size / tasks),
        "peak_rss_mib": peak_mib(),
        "page_p99_ms": {
            name: round(sorted(times)[int(len(times) * 0.99)] * 1000, 1)
            for name, times in found.items()
        },
    }


def main() -> dict[str, Any]:
    if len(sys.argv) > 2:
        return asyncio.run(serve(sys.argv[2], Path(sys.argv[3]), int(sys.argv[1])))
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as made:
        url = fill(Path(made), tasks)
        command = [sys.executable, "-m", "benchmarks.history", str(tasks), url, made]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        measured: dict[str, Any] = json.loads(done.stdout)
        return measured


if __name__ == "__main__":
    print(json.dumps(main(), indent=2))
