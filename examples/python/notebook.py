"""Cells of a notebook: open this file in VS Code or with Jupytext, and run them one by one."""

# %% Connect, as kubectl does
import manta

ray = manta.Client()
ray.clusters.list()  # a table

# %% A cluster. The cell shows what it waits for
cluster = ray.clusters.create(
    name="notebook",
    head=manta.HeadGroup(cpu="500m"),
    workers=manta.WorkerGroup(replicas=1, cpu="500m", memory="1Gi", max_replicas=3),
)
cluster.wait_ready()

# %% Its fields are typed and documented
help(manta.RayClusterStatus)
print(cluster.status.head.pod_name)
print(cluster.to_yaml())

# %% A job on it
job = cluster.submit(["python", "-c", "import ray; ray.init(); print(ray.cluster_resources())"])
for line in job.logs(follow=True):
    print(line)
job.result()

# %% More workers
cluster.scale(2).wait_ready()

# %% The end
cluster.delete(wait=True)
ray.close()
