"""A program for KubeRay's `python_client`: only its imports are changed."""

from manta.compat.kuberay import kuberay_cluster_api
from manta.compat.kuberay.utils import kuberay_cluster_builder


def main() -> None:
    api = kuberay_cluster_api.RayClusterApi()
    director = kuberay_cluster_builder.Director()
    body = director.build_small_cluster(name="new-small-cluster", k8s_namespace="default")
    if body is None or api.create_ray_cluster(body=body) is None:
        raise SystemExit("the cluster was not created: see the log")
    ready = api.wait_until_ray_cluster_running("new-small-cluster", "default", timeout=300)
    print("ready" if ready else "not ready yet")
    api.delete_ray_cluster("new-small-cluster", "default")


if __name__ == "__main__":
    main()
