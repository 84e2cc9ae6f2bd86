"""Apache YuniKorn: told by the Pods alone, which carry the plan of the whole gang as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from manta.api.ray import names
from manta.manifests.containers import Json
from manta.manifests.gang.members import Leader, as_text, joined
from manta.rules.scaling import hosts, min_replicas, pod_resources

_PLACEMENT: Final = ("nodeSelector", "affinity", "tolerations")


class YuniKorn:
    pod_groups = None
    knows_gates = False
    """Not before 1.7; and a Pod that the API server does not let it bind, it gives up."""

    def mark(self, leader: Leader, pod: Json, group: str) -> Json:
        annotations = _task_groups(leader)
        if annotations:
            annotations[names.ANNOTATION_YUNIKORN_TASK_GROUP] = group
        return joined(pod, "yunikorn", labels=_queue_labels(leader), annotations=annotations)

    def cluster_marks(self, leader: Leader) -> Json:
        """The cluster's Pods and the submitter carry one and the same plan, made of the RayJob."""
        marks = {"labels": _queue_labels(leader), "annotations": _task_groups(leader)}
        return {field: found for field, found in marks.items() if found}


def _queue_labels(leader: Leader) -> dict[str, str]:
    found = {
        names.LABEL_YUNIKORN_POD_APP_ID: leader.label(names.LABEL_YUNIKORN_APP_ID),
        names.LABEL_YUNIKORN_POD_QUEUE: leader.label(names.LABEL_YUNIKORN_QUEUE),
    }
    return {key: value for key, value in found.items() if value}


def _task_groups(leader: Leader) -> dict[str, str]:
    if not leader.wants_gang:
        return {}
    given = leader.metadata.annotations.get(names.ANNOTATION_YUNIKORN_TASK_GROUPS)
    text = given or json.dumps(_groups(leader), separators=(",", ":"))
    return {names.ANNOTATION_YUNIKORN_TASK_GROUPS: text}


def _groups(leader: Leader) -> list[Json]:
    head = leader.spec.head_group_spec.template
    groups = [
        _group(names.HEAD_GROUP, 1, head),
        *(
            _group(one.group_name, min_replicas(one) * hosts(one), one.template)
            for one in leader.spec.worker_group_specs
        ),
    ]
    if leader.submitter is not None:
        groups.append(_group(names.SUBMITTER_GROUP, 1, leader.submitter))
    return groups


def _group(name: str, members: int, template: Mapping[str, Any]) -> Json:
    spec = template.get("spec") or {}
    placement = {field: spec[field] for field in _PLACEMENT if spec.get(field)}
    needed = as_text(pod_resources(template))
    return {"name": name, "minMember": members, "minResource": needed, **placement}


YUNIKORN: Final = YuniKorn()
