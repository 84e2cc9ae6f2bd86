"""The changes of a RayService that upgrade it and roll it back, as JSON patches. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from manta.api.documents.limits import FIELD, DocumentError
from manta.api.documents.reader import read_yaml
from manta.api.documents.writer import to_yaml

Operation = dict[str, Any]
CONFIG: Final = "/spec/rayClusterConfig"
SERVE: Final = "/spec/serveConfigV2"


def image_operations(config: Mapping[str, Any], image: str, version: str | None) -> list[Operation]:
    """Set the image of the first container of every group, and the Ray version."""
    found: list[Operation] = []
    places = ["headGroupSpec"]
    for at, group in enumerate(config.get("workerGroupSpecs") or ()):
        place = f"workerGroupSpecs/{at}"
        places.append(place)
        if name := group.get("groupName"):
            found.append({"op": "test", "path": f"{CONFIG}/{place}/groupName", "value": name})
    for place in places:
        path = f"{CONFIG}/{place}/template/spec/containers/0/image"
        found.append({"op": "add", "path": path, "value": image})
    if version:
        found.append({"op": "add", "path": f"{CONFIG}/rayVersion", "value": version})
    return found


def rollback_operations(
    spec: Mapping[str, Any], status: Mapping[str, Any], active: Mapping[str, Any]
) -> list[Operation]:
    """Back to what the active cluster was made of: `active` is its spec, a copy of the earlier config.

    The Serve config goes back too, if the operator recorded the one that the active cluster has.
    """
    found: list[Operation] = [
        {"op": "test", "path": CONFIG, "value": spec.get("rayClusterConfig")},
        {"op": "replace", "path": CONFIG, "value": active},
    ]
    side = status.get("activeServiceStatus") or {}
    earlier = _config((side.get("serveSubmission") or {}).get("config", ""))
    if earlier is not None and earlier != _config(str(spec.get("serveConfigV2") or "")):
        found.append({"op": "replace", "path": SERVE, "value": to_yaml(earlier)})
    return found


def _config(text: str) -> dict[str, Any] | None:
    """A Serve config without the share of capacity, which the operator adds; None if there is none."""
    try:
        found = read_yaml(text, FIELD)  # JSON is YAML
    except DocumentError:
        return None
    if not isinstance(found, dict):
        return None
    return {name: value for name, value in found.items() if name != "target_capacity"}
