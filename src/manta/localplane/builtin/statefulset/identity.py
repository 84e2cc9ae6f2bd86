"""What makes a Pod of a StatefulSet itself: its name, host name, labels and claims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.resources import STATEFUL_SETS
from manta.api.well_known import LABEL_POD_INDEX, LABEL_STATEFUL_SET_POD_NAME
from manta.localplane.builtin.owned_pods import pod_from_template
from manta.localplane.builtin.revisions import HASH_LABEL
from manta.localplane.builtin.views import Pod
from manta.localplane.builtin.workload_views import StatefulSet


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int:
    """The ordinal in the name of a Pod; -1 where the name is not one of this StatefulSet."""
    prefix, _, number = pod.metadata.name.rpartition("-")
    fits = prefix == stateful_set.metadata.name and number.isascii() and number.isdigit()
    return int(number) if fits and str(int(number)) == number else -1


def claim_names(stateful_set: StatefulSet, pod: str) -> dict[str, str]:
    """The claims of one Pod: volume name to claim name."""
    templates = stateful_set.spec.volume_claim_templates or ()
    names = ((one.get("metadata") or {}).get("name", "") for one in templates)
    return {name: f"{name}-{pod}" for name in names}


def new_claim(stateful_set: StatefulSet, template: Mapping[str, Any], pod: str) -> dict[str, Any]:
    meta = template.get("metadata") or {}
    selected = (stateful_set.spec.selector or {}).get("matchLabels") or {}
    kept = {"annotations": meta["annotations"]} if meta.get("annotations") else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"{meta.get('name', '')}-{pod}",
            "namespace": stateful_set.metadata.namespace,
            "labels": {**(meta.get("labels") or {}), **selected},
            **kept,
        },
        "spec": template.get("spec") or {},
    }


def new_pod(
    stateful_set: StatefulSet, ordinal: int, template: Mapping[str, Any], revision: str
) -> dict[str, Any]:
    name = pod_name(stateful_set, ordinal)
    pod = pod_from_template(STATEFUL_SETS, stateful_set.metadata, template, name=name)
    meta, spec = pod["metadata"], pod["spec"]
    labels = {
        LABEL_STATEFUL_SET_POD_NAME: name,
        LABEL_POD_INDEX: str(ordinal),
        HASH_LABEL: revision,
    }
    service = stateful_set.spec.service_name
    return {
        **pod,
        "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}},
        "spec": {
            **spec,
            "hostname": name,
            **({"subdomain": service} if service else {}),
            **_volumes(stateful_set, spec, name),
        },
    }


def _volumes(stateful_set: StatefulSet, spec: Mapping[str, Any], pod: str) -> dict[str, Any]:
    """A claim takes the place of a volume of the same name in the template."""
    claims = claim_names(stateful_set, pod)
    if not claims:
        return {}
    own = [one for one in spec.get("volumes") or () if one.get("name") not in claims]
    mounted = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
        for volume, claim in claims.items()
    ]
    return {"volumes": [*own, *mounted]}
