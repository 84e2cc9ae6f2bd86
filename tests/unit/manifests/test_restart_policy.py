"""Who restarts a Ray container: the kubelet, or we, by a new Pod."""

from __future__ import annotations

from typing import Any

import pytest

from manta.manifests.head_pod import build_head_spec
from manta.manifests.worker_pod import build_worker_spec
from manta.rules.settings import Settings
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import decode


def policies(policy: str | None, by: str) -> list[str | None]:
    """Of head and worker, when their templates say this."""
    said = {"restartPolicy": policy} if policy else {}
    env = [{"name": "RAY_enable_autoscaler_v2", "value": "1"}] if by == "variable" else []
    spec: dict[str, Any] = {"enableInTreeAutoscaling": True}
    if by == "version":
        spec["autoscalerOptions"] = {"version": "v2"}
    head = {"template": template(container(env=env), **said)}
    cluster = decode(
        ray_cluster(head=head, groups=[group(template=template(container(), **said))], **spec)
    )
    [workers] = cluster.spec.worker_group_specs
    made = (
        build_head_spec(cluster, Settings(), keep_command=False),
        build_worker_spec(cluster, workers, Settings(), keep_command=False),
    )
    return [one.get("restartPolicy") for one in made]


@pytest.mark.parametrize("by", ["version", "variable"])
def test_c17_with_autoscaler_v2_pods_never_restart(by: str) -> None:
    assert policies(None, by) == ["Never", "Never"]


def test_otherwise_kubernetes_decides() -> None:
    assert policies(None, "nothing") == [None, None]


def test_what_the_user_says_is_kept() -> None:
    """Beside the version field it is refused (RC38, RC39); beside the variable it is theirs."""
    assert policies("OnFailure", "variable") == ["OnFailure", "OnFailure"]
