"""Real Ray that lets the server check tokens: with the rights of the example, and with no others."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml

from e2e.conftest import ROOT, Machine
from manta.kube.config import load
from manta.kube.connect import connect

EXAMPLE = ROOT / "examples" / "raycluster-token-kubernetes.yaml"
ON_BOTH = (
    "import ray, time; ray.init(logging_level='error');"
    "where = lambda: (time.sleep(5), ray.get_runtime_context().get_node_id())[1];"
    "f = ray.remote(num_cpus=1)(where);"
    "print('nodes', len(set(ray.get([f.remote() for _ in range(2)]))))"
)


@pytest.fixture(autouse=True)
def reach(machine: Machine) -> None:
    if not machine.is_here:
        pytest.skip("addresses of that cluster's Pods cannot be reached from here")


def account(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def let_in(name: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "delegated-writer"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }


def test_c89_who_may_write_the_cluster_is_let_in_and_nobody_else(machine: Machine) -> None:
    machine.apply(*yaml.safe_load_all(EXAMPLE.read_text()), account("alice"), account("bob"))
    machine.apply(let_in("alice"))
    address = machine.cluster_ready("delegated")["status"]["head"]["podIP"]
    jobs = f"http://{address}:8265/api/jobs/"
    assert answer(jobs, token_of(machine, "alice")) == 200
    assert answer(jobs, token_of(machine, "bob")) in (401, 403)
    assert answer(jobs, "nonsense") in (401, 403)
    assert answer(jobs, "") in (401, 403)
    # Head and worker show each other the tokens of their Pods, and each asks the server about them:
    # a worker whose account may not ask comes up, and gets no work.
    [head] = machine.list("pods", "ray.io/cluster=delegated,ray.io/node-type=head")
    name = head["metadata"]["name"]
    assert "nodes 2" in machine.exec(name, "python", "-c", ON_BOTH, container="ray-head")
    machine.manta("delete", "raycluster", "delegated")


def token_of(machine: Machine, name: str) -> str:
    """As `kubectl create token` asks for it."""
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}

    async def drawn() -> str:
        async with await connect(load(machine.directory / "kubeconfig")) as client:
            found = await client.send("POST", path, body=json.dumps(body).encode())
            return str(json.loads(found.body)["status"]["token"])

    return asyncio.run(drawn())


def answer(url: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=20
        ) as found:
            return int(found.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code
