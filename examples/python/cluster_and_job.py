"""A cluster, a job on it, and its log: everything is deleted at the end.

Start `manta up`, or choose any cluster that kubectl reaches; then run
`python examples/python/cluster_and_job.py`.
"""

from pathlib import Path

import manta


def main() -> None:
    with (
        manta.Client() as ray,
        ray.clusters.create(
            name="python-demo",
            head=manta.HeadGroup(cpu="500m"),
            workers=manta.WorkerGroup(replicas=1, cpu="500m", memory="1Gi"),
        ) as cluster,
    ):
        cluster.wait_ready(progress=True)
        print(f"{cluster.name} has {cluster.status.ready_worker_replicas} workers")

        job = cluster.submit("python train.py", working_dir=Path(__file__).parent)
        for line in job.logs(follow=True):
            print(line)
        try:
            status = job.result()
        except manta.JobFailed as failed:
            raise SystemExit(failed.exit_code) from failed
        print(f"{job.name} ended at {status.end_time}: {status.job_status}")


if __name__ == "__main__":
    main()
