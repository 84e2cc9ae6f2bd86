"""Three jobs at once on one cluster, with asyncio.

Start `manta up`, or choose any cluster that kubectl reaches; then run
`python examples/python/many_jobs_async.py`.
"""

import asyncio

import manta


async def run(cluster: manta.AsyncCluster, number: int) -> str:
    command = ["python", "-c", f"print('square', {number} ** 2)"]
    job = await cluster.submit(command, name=f"square-{number}")
    await job.result()
    lines = [line async for line in job.logs() if line.startswith("square")]
    await job.delete()
    return lines[0]


async def main() -> None:
    async with (
        manta.AsyncClient() as ray,
        await ray.clusters.create(name="async-demo", head=manta.HeadGroup(cpu="500m")) as cluster,
    ):
        await cluster.wait_ready(progress=True)
        print(await asyncio.gather(*(run(cluster, number) for number in (2, 3, 4))))


if __name__ == "__main__":
    asyncio.run(main())
