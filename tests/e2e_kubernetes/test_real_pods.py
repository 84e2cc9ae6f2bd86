"""What the embedded plane has no part in: images, users, containers that are started again, the chart's release."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from e2e_kubernetes.conftest import Cluster, cluster_spec, ray_object
from support.helm import CHART
from support.release import GATES, OPERATOR, helm, with_gates

Json = dict[str, Any]


def test_the_operator_is_a_user_who_can_write_nowhere_but_tmp(operator: Cluster) -> None:
    [pod] = operator.pods(OPERATOR)
    inside = ("exec", pod["metadata"]["name"], "--", "python3", "-c")
    assert operator.kubectl(*inside, "import os; print(os.getuid())").strip() == "65532"
    mounted = operator.kubectl(*inside, "print(open('/proc/mounts').read())").splitlines()
    [root] = [line.split() for line in mounted if line.split()[1:2] == ["/"]]
    assert "ro" in root[3].split(",")
    operator.kubectl(*inside, "open('/tmp/kept', 'w')")


def test_the_operator_may_do_what_its_service_account_may_and_no_more(operator: Cluster) -> None:
    [pod] = operator.pods(OPERATOR)
    account = pod["spec"]["serviceAccountName"]
    assert account != "default"
    user = f"--as=system:serviceaccount:{operator.namespace}:{account}"
    may = ("auth", "can-i", user, "--all-namespaces")
    assert operator.kubectl(*may, "create", "pods").strip() == "yes"
    for verb, what in (("list", "secrets"), ("delete", "nodes"), ("*", "*")):
        assert operator.kubectl(*may, verb, what, check=False).strip() == "no"


def test_what_the_rules_refuse_is_refused_at_the_door(cluster: Cluster) -> None:
    """The API server finds the webhook by its Service, and trusts the certificate that it made."""
    old = cluster_spec() | {"authOptions": {"mode": "token"}, "rayVersion": "2.40.0"}

    def refused() -> str:
        try:
            cluster.apply(ray_object("RayCluster", "old", old))
        except AssertionError as error:
            return str(error)
        return ""

    said = cluster.until("refused", refused, seconds=60)
    assert 'admission webhook "validate.ray.manta.io" denied the request' in said
    assert "2.52.0" in said
    cluster.kubectl("delete", "raycluster", "old", "--ignore-not-found")


def test_a_ray_cluster_computes_in_both_its_containers(cluster: Cluster) -> None:
    cluster.apply(ray_object("RayCluster", "plain", cluster_spec()))
    cluster.until("ready", lambda: cluster.status("raycluster", "plain").get("state") == "ready")
    code = """
        import ray
        ray.init(address="auto", log_to_driver=False)
        @ray.remote(num_cpus=1)
        def where():
            import os, socket, time
            time.sleep(2)
            return socket.gethostname(), os.getuid()
        found = set(ray.get([where.remote() for _ in range(2)]))
        print("hosts:", *sorted(host for host, _ in found))
        print("users:", *{user for _, user in found})
    """
    said = cluster.python(cluster.head("plain")["metadata"]["name"], textwrap.dedent(code))
    pods = sorted(pod["metadata"]["name"] for pod in cluster.pods("ray.io/cluster=plain"))
    assert f"hosts: {' '.join(pods)}" in said
    assert "users: 1000" in said
    cluster.kubectl("delete", "raycluster", "plain", "--timeout=120s")


@pytest.fixture
def restarting(operator: Cluster) -> Iterator[None]:
    """The gate SidecarSubmitterRestart, by an upgrade of the release, and the release as it was."""
    gates = with_gates(*GATES, "SidecarSubmitterRestart")
    where = ("manta", "-n", operator.namespace, "--wait", "--timeout", "180s")
    done = helm("upgrade", *where, str(CHART), "--reuse-values", *gates)
    assert done.returncode == 0, done.stderr
    yield
    done = helm("rollback", *where)
    assert done.returncode == 0, done.stderr


def submitter_of(pod: Json) -> Json:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return next((one for one in statuses if one["name"] == "ray-job-submitter"), {})


def test_a_submitter_beside_the_head_that_dies_is_started_again_and_runs_nothing_twice(
    cluster: Cluster,
    restarting: None,  # it has to be so
) -> None:
    body = {
        "entrypoint": "python -c 'import time; time.sleep(45); print(6 * 7)'",
        "submissionMode": "SidecarMode",
        "rayClusterSpec": cluster_spec(workers=0),
    }
    cluster.apply(ray_object("RayJob", "again", body))

    def runs() -> bool:
        return cluster.status("rayjob", "again").get("jobStatus") == "RUNNING"

    cluster.until("the job to run", runs)
    name = cluster.status("rayjob", "again")["rayClusterName"]
    head = cluster.head(name)
    kill = ("python", "-c", "import os; os.kill(1, 2); os.kill(-1, 9)")
    where = ("exec", head["metadata"]["name"], "-c", "ray-job-submitter")
    cluster.kubectl(*where, "--", *kill, check=False)
    cluster.until(
        "another submitter", lambda: submitter_of(cluster.head(name)).get("restartCount", 0) == 1
    )

    def ended() -> Json | None:
        status = cluster.status("rayjob", "again")
        return status if status.get("jobDeploymentStatus") in ("Complete", "Failed") else None

    status = cluster.until("the job to end", ended)
    assert (status["jobStatus"], status["jobDeploymentStatus"]) == ("SUCCEEDED", "Complete")
    after = cluster.head(name)
    assert after["metadata"]["uid"] == head["metadata"]["uid"]
    assert "42" in cluster.kubectl("logs", after["metadata"]["name"], "-c", "ray-job-submitter")
    count = (
        "from ray.job_submission import JobSubmissionClient as C;"
        "print('jobs', sum(bool(one.submission_id) for one in C('http://127.0.0.1:8265').list_jobs()))"
    )
    assert "jobs 1" in cluster.python(after["metadata"]["name"], count)
    cluster.kubectl("delete", "rayjob", "again", "--timeout=120s")
