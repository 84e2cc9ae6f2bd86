"""The number of workers of a RayCluster."""

from __future__ import annotations

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError, did_you_mean
from manta.kube.client import Client


async def scale_group(
    client: Client, key: Key, group: str, replicas: int, *, widen: bool = False
) -> str:
    """Scale a worker group. Returns what happened. Raises UsageError outside of its bounds.

    `widen`: change the bounds too, unless an autoscaler is held by them.
    """
    cluster = await client.get(RAY_CLUSTERS, key)
    spec = cluster["spec"]
    groups = spec.get("workerGroupSpecs") or []
    number = group_position([one["groupName"] for one in groups], group, key)
    found = groups[number]
    low, high = found.get("minReplicas", 0), found.get("maxReplicas", replicas)
    wider = widen and not spec.get("enableInTreeAutoscaling")
    if not low <= replicas <= high and not wider:
        raise UsageError(
            f"--replicas {replicas}: group {found['groupName']} has between minReplicas {low} and "
            f"maxReplicas {high}; change these bounds in the manifest first"
        )
    path = f"/spec/workerGroupSpecs/{number}"
    patch = [
        {"op": "test", "path": f"{path}/groupName", "value": found["groupName"]},
        {"op": "add", "path": f"{path}/replicas", "value": replicas},
    ]
    if replicas > high:
        patch.append({"op": "add", "path": f"{path}/maxReplicas", "value": replicas})
    if replicas < low:
        patch.append({"op": "add", "path": f"{path}/minReplicas", "value": replicas})
    await client.patch(RAY_CLUSTERS, key, patch, kind="json")
    text = f"raycluster/{key.name}, group {found['groupName']}: scaled to {replicas}"
    if spec.get("enableInTreeAutoscaling"):
        text += " (the autoscaler may change it again)"
    return text


def group_position(names: list[str], group: str, key: Key, flag: str = "--group") -> int:
    """The index of the group, or of the only one. Raises UsageError, which names the flag."""
    if not names:
        raise UsageError(f"raycluster/{key.name} has no worker groups")
    if group in names:
        return names.index(group)
    if group:
        raise UsageError(
            f"{flag} {group}: raycluster/{key.name} has {', '.join(names)}"
            f"{did_you_mean(group, names)}"
        )
    if len(names) > 1:
        raise UsageError(f"{flag} is missing: one of {', '.join(names)}")
    return 0
