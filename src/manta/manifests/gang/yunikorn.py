"""Apache YuniKorn: Pods carry the definition of the whole gang as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from manta.api.ray import names
from manta.manifests.containers import Json
from manta.manifests.gang.members import Gang, as_text, with_scheduler
from manta.rules.scaling import hosts, min_replicas, pod_resources

_PLACEMENT: Final = ("nodeSelector", "affinity", "tolerations")


class YuniKorn:
    pod_groups = None
    supports_scheduling_gates = False
    """Only since 1.7; older versions give up a Pod that the API server does not let them bind."""

    def member_pod(self, gang: Gang, pod: Json, group: str) -> Json:
        annotations = _task_groups(gang)
        if annotations:
            annotations[names.ANNOTATION_YUNIKORN_TASK_GROUP] = group
        return with_scheduler(pod, "yunikorn", labels=_queue_labels(gang), annotations=annotations)

    def cluster_metadata(self, gang: Gang) -> Json:
        """The cluster's Pods and the submitter carry the same definition, built from the RayJob."""
        metadata = {"labels": _queue_labels(gang), "annotations": _task_groups(gang)}
        return {field: found for field, found in metadata.items() if found}


def _queue_labels(gang: Gang) -> dict[str, str]:
    found = {
        names.LABEL_YUNIKORN_POD_APP_ID: gang.label(names.LABEL_YUNIKORN_APP_ID),
        names.LABEL_YUNIKORN_POD_QUEUE: gang.label(names.LABEL_YUNIKORN_QUEUE),
    }
    return {key: value for key, value in found.items() if value}


def _task_groups(gang: Gang) -> dict[str, str]:
    if not gang.wants_gang:
        return {}
    given = gang.metadata.annotations.get(names.ANNOTATION_YUNIKORN_TASK_GROUPS)
    text = given or json.dumps(_groups(gang), separators=(",", ":"))
    return {names.ANNOTATION_YUNIKORN_TASK_GROUPS: text}


def _groups(gang: Gang) -> list[Json]:
    head = gang.spec.head_group_spec.template
    groups = [
        _group(names.HEAD_GROUP, 1, head),
        *(
            _group(one.group_name, min_replicas(one) * hosts(one), one.template)
            for one in gang.spec.worker_group_specs
        ),
    ]
    if gang.submitter is not None:
        groups.append(_group(names.SUBMITTER_GROUP, 1, gang.submitter))
    return groups


def _group(name: str, members: int, template: Mapping[str, Any]) -> Json:
    spec = template.get("spec") or {}
    placement = {field: spec[field] for field in _PLACEMENT if spec.get(field)}
    needed = as_text(pod_resources(template))
    return {"name": name, "minMember": members, "minResource": needed, **placement}


YUNIKORN: Final = YuniKorn()
