"""Real Ray in real containers on a real Kubernetes node, under the chart's operator."""

from __future__ import annotations

import json
import subprocess
import textwrap
from typing import Any

from e2e_kubernetes.conftest import Cluster, ray_object, spec

Json = dict[str, Any]


def is_ready(status: Json) -> bool:
    return bool(status.get("state") == "ready")


def has_ended(status: Json) -> bool:
    return status.get("jobDeploymentStatus") in ("Complete", "Failed")


def test_a_ray_cluster_computes_on_both_its_pods(cluster: Cluster) -> None:
    cluster.apply(ray_object("RayCluster", "plain", spec()))
    cluster.until("raycluster", "plain", is_ready)
    code = """
        import ray
        ray.init(address="auto", log_to_driver=False)
        @ray.remote(num_cpus=1)
        def where():
            import socket, time
            time.sleep(2)
            return socket.gethostname()
        print("nodes:", len(set(ray.get([where.remote() for _ in range(2)]))))
    """
    assert "nodes: 2" in cluster.python(cluster.head("plain"), textwrap.dedent(code))
    cluster.kubectl("delete", "raycluster", "plain", "--timeout=120s")


def test_ray_jobs_run_to_their_end(cluster: Cluster) -> None:
    for mode in ("HTTPMode", "K8sJobMode"):
        name = mode.lower()
        body = {
            "entrypoint": "python3 -c 'import ray; ray.init(); print(6 * 7)'",
            "submissionMode": mode,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": spec(workers=0),
        }
        cluster.apply(ray_object("RayJob", name, body))
        status = cluster.until("rayjob", name, has_ended)
        assert (status["jobStatus"], status["jobDeploymentStatus"]) == ("SUCCEEDED", "Complete")
        cluster.kubectl("delete", "rayjob", name, "--timeout=120s")


def test_the_autoscaler_brings_a_worker_and_takes_it_away(cluster: Cluster) -> None:
    options = {"version": "v2", "idleTimeoutSeconds": 15}
    body = spec(workers=0, enableInTreeAutoscaling=True, autoscalerOptions=options)
    cluster.apply(ray_object("RayCluster", "auto", body))
    cluster.until("raycluster", "auto", is_ready)
    code = """
        import ray
        ray.init(address="auto", log_to_driver=False)
        @ray.remote(num_cpus=1)
        def work():
            import time
            time.sleep(20)
        ray.get([work.remote() for _ in range(2)])
        print("nodes:", len(ray.nodes()))
    """
    assert "nodes: 2" in cluster.python(cluster.head("auto"), textwrap.dedent(code))
    cluster.until("raycluster", "auto", lambda one: one.get("availableWorkerReplicas", 0) == 0)
    cluster.kubectl("delete", "raycluster", "auto", "--timeout=120s")


APPLICATION = """
applications:
  - name: app
    import_path: hello:app
    runtime_env: {env_vars: {PYTHONPATH: /tmp/app}}
"""
WRITE = (
    "mkdir -p /tmp/app && printf 'from ray import serve\\n@serve.deployment\\nclass A:\\n"
    ' def __call__(self, r): return "%s"\\napp = A.bind()\\n\' > /tmp/app/hello.py'
)


def a_service(word: str) -> Json:
    config = spec(workers=0)
    head = config["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["args"] = [WRITE % word]  # goes before `ray start`
    body = {
        "serveConfigV2": APPLICATION,
        "rayClusterConfig": config,
        "rayClusterDeletionDelaySeconds": 5,
    }
    return ray_object("RayService", "hello", body)


def serves(status: Json) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()
    )


LOAD = """
import json, time, urllib.request
answers, end = {}, time.time() + %d
while time.time() < end:
    try:
        with urllib.request.urlopen("http://hello-serve-svc:8000/", timeout=5) as reply:
            found = reply.read().decode()
    except Exception as error:
        found = repr(error)
    answers[found] = answers.get(found, 0) + 1
    time.sleep(0.05)
print(json.dumps(answers))
"""


def test_a_ray_service_is_upgraded_under_load_without_a_lost_request(cluster: Cluster) -> None:
    cluster.apply(a_service("old"))
    cluster.until("rayservice", "hello", serves)
    old = cluster.get("rayservice", "hello")["status"]["activeServiceStatus"]["rayClusterName"]
    cluster.apply(ray_object("RayCluster", "load", spec(workers=0)))
    cluster.until("raycluster", "load", is_ready)
    client = ["kubectl", "-n", cluster.namespace, "exec", cluster.head("load"), "-c", "ray", "--"]
    load = subprocess.Popen(
        [*client, "python3", "-c", LOAD % 150], stdout=subprocess.PIPE, text=True
    )
    cluster.apply(a_service("new"))

    def moved(status: Json) -> bool:
        active = status["activeServiceStatus"]["rayClusterName"]
        return active != old and serves(status)

    cluster.until("rayservice", "hello", moved)
    answers = json.loads(load.communicate(timeout=300)[0])
    assert answers.get("old", 0) > 0
    assert answers.get("new", 0) > 0
    assert set(answers) == {"old", "new"}, answers
