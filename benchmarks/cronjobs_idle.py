"""1,000 RayCronJobs that are not due: what they cost while nothing happens."""

from __future__ import annotations

import asyncio

from benchmarks.memory import cpu_seconds, rss_mib
from benchmarks.operators import a_plane, an_operator, tell
from manta.api.ray.resources import RAY_CRON_JOBS

COUNT, SECONDS = 1000, 30


def a_cron(number: int) -> dict[str, object]:
    container = {"name": "ray", "image": "rayproject/ray:2.60.0"}
    head = {"template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": f"cron-{number}"},
        "spec": {
            "schedule": "0 0 1 1 *",
            "jobTemplate": {
                "entrypoint": "python -c 1",
                "rayClusterSpec": {"rayVersion": "2.60.0", "headGroupSpec": head},
            },
        },
    }


async def main() -> None:
    async with a_plane(controllers=False) as (plane, requests):
        for number in range(COUNT):
            await plane.client.create(RAY_CRON_JOBS, "default", a_cron(number))
        async with an_operator(plane, requests) as process:
            await asyncio.sleep(15)
            before, asked = cpu_seconds(process.pid), len(requests.seen)
            await asyncio.sleep(SECONDS)
            used = cpu_seconds(process.pid) - before
            tell(
                cronjobs=COUNT,
                requests=len(requests.seen) - asked,
                cpu_percent_of_a_core=round(100 * used / SECONDS, 2),
                rss_mib=round(rss_mib(process.pid), 1),
                goal="requests 0 (but watches that are renewed), cpu under 1 percent",
            )


if __name__ == "__main__":
    asyncio.run(main())
