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
from manta.httpserver.handler import Handler
from manta.httpserver.messages import HttpRequest

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
    """Index the session, then ask for pages, as `manta history serve` does. Runs in a process of its own, whose
    peak memory counts."""
    from manta.cli.server.history_index import in_child
    from manta.history.serve.access import OwnerAccess
    from manta.history.serve.server import HistoryHandler

    access = OwnerAccess()
    catalog = Catalog(open_store(url, {}), directory / "cache")
    [key] = catalog.sessions("default")
    info = catalog.info(key)
    assert info is not None
    began = time.monotonic()
    file = await in_child(catalog)(info)
    indexed = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    handler = HistoryHandler(catalog, access, [], secure=False)
    clock = Clock(handler, f"/history/{key.path}/", access.token)
    await ask_for_pages(clock, tasks)
    await handler.close()
    return {
        "tasks": tasks,
        "index_seconds": round(indexed, 1),
        "index_cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "index_peak_rss_mib": round(used.ru_maxrss / 1024, 1),
        "index_bytes_per_task": round(file.stat().st_size / tasks),
        "server_peak_rss_mib": peak_mib(),
        "load_average": os.getloadavg()[0],
        "page_p99_ms": clock.p99(0),
        "page_cpu_p99_ms": clock.p99(1),
    }


class Clock:
    """Times answers, in seconds of the wall and of the processor."""

    def __init__(self, handler: Handler, base: str, token: str) -> None:
        self._handler = handler
        self._base = base
        self._headers = {"authorization": f"Bearer {token}"}
        self._times: dict[str, list[tuple[float, float]]] = {}

    async def ask(self, name: str, path: str, *query: tuple[str, str]) -> None:
        request = HttpRequest("GET", self._base + path, query, self._headers)
        start, cpu = time.monotonic(), time.process_time()
        response = await self._handler.handle(request)
        if not isinstance(response.body, bytes):
            async for _ in response.body:
                pass
        took = (time.monotonic() - start, time.process_time() - cpu)
        self._times.setdefault(name, []).append(took)
        assert response.status == 200, response.body

    def p99(self, which: int) -> dict[str, float]:
        return {
            name: round(sorted(one[which] for one in times)[int(len(times) * 0.99)] * 1000, 1)
            for name, times in self._times.items()
        }


def only(*filters: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        pair
        for name, value in filters
        for pair in (("filter_keys", name), ("filter_predicates", "="), ("filter_values", value))
    )


async def ask_for_pages(clock: Clock, tasks: int) -> None:
    dice = random.Random(1)
    detail, job = ("detail", "1"), ("job_id", "01000000")
    for _ in range(PAGES):
        number = dice.randrange(tasks)
        task = (number.to_bytes(8, "big") + b"\xff" * 12 + b"\x01\0\0\0").hex()
        node = (number % 5).to_bytes(28, "big").hex()
        name = f"f{number % 20}"
        await clock.ask("100 tasks, detail", "api/v0/tasks", detail, ("limit", "100"))
        await clock.ask("one task", "api/v0/tasks", detail, *only(("task_id", task)))
        await clock.ask("failed tasks", "api/v0/tasks", detail, *only(("state", "FAILED")))
        await clock.ask("100 tasks by name", "api/v0/tasks", *only(("name", name)))
        await clock.ask("100 tasks by node", "api/v0/tasks", *only(("node_id", node)))
        await clock.ask("summary", "api/v0/tasks/summarize")
        await clock.ask("summary of a job", "api/v0/tasks/summarize", *only(job))
        await clock.ask("jobs", "api/jobs/")
        await clock.ask("nodes", "nodes", ("view", "summary"))
    for _ in range(PAGES // 10):
        both = only(("name", f"f{dice.randrange(20)}"), ("state", "FINISHED"))
        await clock.ask("100 tasks by name and state", "api/v0/tasks", *both)
        await clock.ask("summary by lineage", "api/v0/tasks/summarize", ("summary_by", "lineage"))
        await clock.ask("10,000 tasks, detail", "api/v0/tasks", detail, ("limit", "10000"))
        of_job = (detail, ("limit", "10000"), *only(job))
        await clock.ask("10,000 tasks of a job, detail", "api/v0/tasks", *of_job)
        await clock.ask("timeline", "api/v0/tasks/timeline")
        await clock.ask("timeline of a job", "api/v0/tasks/timeline", job)


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
