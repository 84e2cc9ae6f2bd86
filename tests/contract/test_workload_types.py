"""What the gate KubernetesWAS sends, decoded strictly into the Go types of Kubernetes 1.36.

Part of `make test-kubernetes`, which builds the small program (tools/kubernetes/decoder) with client-go 0.36; the
control plane that it builds beside it is 1.35, which does not serve these kinds.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from manta.api.ray import names
from manta.rules.settings import FeatureGates, Settings
from support.fakenodes import fake_cluster
from support.raycluster import group
from support.raycrds import ray_crds
from support.rayoperator import start_operator
from support.virtual import virtually
from support.workloads import workload_crds

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manta" / "kubernetes"
PROGRAMS = sorted(CACHE.glob("*/bin/decoder"))

pytestmark = pytest.mark.skipif(not PROGRAMS, reason="make test-kubernetes builds the decoder")


def decoded(*objects: dict[str, Any]) -> tuple[int, list[str]]:
    done = subprocess.run(
        [PROGRAMS[-1]], input=json.dumps(objects), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


@virtually
async def test_workload_pod_group_and_pods_are_those_of_kubernetes_1_36() -> None:
    settings = Settings(gates=FeatureGates(kubernetes_was=True))
    crds = [*ray_crds(), *workload_crds()]
    async with fake_cluster(2, crds=crds) as cluster, start_operator(cluster, settings) as op:
        await op.create(labels={names.LABEL_GANG_SCHEDULING: "true"}, groups=[group(replicas=2)])
        await op.until(lambda one: one.status.state == "ready")
        sent = [
            json.loads(one.body)
            for path in ("/workloads", "/podgroups", "/pods")
            for one in op.faults.accepted_writes(path)
            if one.method == "POST" and one.body
        ]
    group_version = "scheduling.k8s.io/v1alpha2"
    wanted = [f"{group_version} Workload", f"{group_version} PodGroup", *["v1 Pod"] * 3]
    assert decoded(*sent) == (0, wanted)
    assert all("schedulingGroup" in one["spec"] for one in sent[2:])


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    workload = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "spec": {"gang": 3}}
    code, [line] = decoded(workload)
    assert (code, 'unknown field "spec.gang"' in line) == (1, True)
