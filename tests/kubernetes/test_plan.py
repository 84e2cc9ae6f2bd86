"""`manta plan` on a whole control plane, which refuses Pods whose ServiceAccount does not exist."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import yaml

from manta.api.ray.resources import RAY_CLUSTERS
from support.operator_fixture import OperatorFixture
from support.operator_objects import a_cluster

Json = dict[str, Any]


async def planned(operated: OperatorFixture, *documents: Json) -> tuple[int | None, str]:
    """The exit code and output of `manta plan` for a file with these objects."""
    file = operated.directory / "plan.yaml"
    for one in documents:
        one["metadata"]["namespace"] = operated.namespace
    file.write_text(yaml.safe_dump_all(documents))
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("manta")), "plan", "-f", str(file)),
        *("--kubeconfig", str(operated.kubeconfig), "-n", operated.namespace),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_a_cluster_with_a_new_account_for_its_autoscaler_is_valid(
    operated: OperatorFixture, name: str
) -> None:
    cluster = a_cluster(operated, name)
    cluster["spec"]["enableInTreeAutoscaling"] = True
    code, said = await planned(operated, cluster)
    assert code == 0, said
    assert f"create ServiceAccount {operated.namespace}/{name}" in said
    assert await operated.get(RAY_CLUSTERS, name) is None


async def test_an_account_must_exist_or_be_in_the_file(
    operated: OperatorFixture, name: str
) -> None:
    cluster = a_cluster(operated, name)
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = f"{name}-own"
    code, said = await planned(operated, cluster)
    assert code == 2, said
    assert f'serviceaccount "{name}-own" not found' in said
    own = {"metadata": {"name": f"{name}-own"}}
    code, said = await planned(
        operated, {"apiVersion": "v1", "kind": "ServiceAccount", **own}, cluster
    )
    assert code == 0, said
