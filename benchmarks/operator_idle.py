"""An operator with nothing to do: its memory, and the time to its first list request."""

from __future__ import annotations

import asyncio

from benchmarks.memory import rss_mib
from benchmarks.operators import a_plane, an_operator, tell


async def main() -> None:
    async with (
        a_plane(controllers=False) as (plane, requests),
        an_operator(plane, requests) as process,
    ):
        while requests.first_list is None:
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
        tell(
            rss_mib=round(rss_mib(process.pid), 1),
            start_to_first_list_seconds=round(requests.first_list, 3),
            start_to_first_list_cpu_seconds=round(requests.first_list_cpu, 2),
            goal="rss_mib at most 60, start_to_first_list_seconds under 0.5",
        )


if __name__ == "__main__":
    asyncio.run(main())
