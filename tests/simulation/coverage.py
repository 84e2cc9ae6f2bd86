"""What the seeds reached: fields of the CRDs, Event reasons and causes of actions; and what none ever reached."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from manta.api.crds import crd_documents
from manta.controllers.raycluster.events import Cause as ClusterCause
from manta.controllers.raycronjob.events import Cause as CronCause
from manta.controllers.rayjob.events import Cause as JobCause
from manta.controllers.rayservice.events import Cause as ServiceCause
from manta.reconcile.causes import ActionCause
from simulation.run import Result

_CAUSES: dict[str, type[ActionCause]] = {
    "raycluster": ClusterCause,
    "rayjob": JobCause,
    "rayservice": ServiceCause,
    "raycronjob": CronCause,
}
_OTHERS = ("template", "submitterPodTemplate", "headService", "serveService", "jobTemplate")
"""Fields whose inside is another type of Kubernetes, or counted under another kind."""
_OPEN = (
    "ingressRules",
    "egressRules",
    "resources",
    "securityContext",
    "env",
    "envFrom",
    "volumeMounts",
    "tls",
    "valueFrom",
)


class Coverage:
    def __init__(self) -> None:
        self.fields: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.oracles: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()

    def add(self, result: Result) -> None:
        for step in result.story.steps:
            self.actions[step.do] += 1
            found = step.args.get("object") or {}
            if step.do == "create":
                self.fields.update(set(_paths(found["kind"], found["spec"])))
        self.reasons.update(result.reasons)
        self.causes.update(result.causes)
        self.oracles.update(result.failed)

    def text(self) -> str:
        known, reasons, causes = known_fields(), known_reasons(), known_causes()
        missing = sorted(known - set(self.fields))
        unseen = sorted(reasons - set(self.reasons))
        return "\n".join(
            [
                f"fields of the CRDs: {len(known) - len(missing)} of {len(known)}",
                *(f"  never: {one}" for one in missing),
                f"causes of actions: {len(set(self.causes) & set(causes))} of {len(causes)}",
                *(f"  never: {one}" for one in sorted(set(causes) - set(self.causes))),
                f"Event reasons: {len(reasons & set(self.reasons))} of {len(reasons)}",
                *(f"  never: {one}" for one in unseen),
                "actions: " + ", ".join(f"{name} {n}" for name, n in sorted(self.actions.items())),
            ]
        )


def _paths(kind: str, value: Any, path: str = "") -> Iterator[str]:
    """Every field that an object sets, as `RayJob.suspend`; fields of a cluster spec as `RayCluster.…`."""
    if isinstance(value, list):
        for one in value:
            yield from _paths(kind, one, path)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name in ("rayClusterSpec", "rayClusterConfig"):
                yield f"{kind}.{name}"
                yield from _paths("RayCluster", inner)
            elif name == "jobTemplate":
                yield f"{kind}.{name}"
                yield from _paths("RayJob", inner)
            else:
                here = f"{path}.{name}".strip(".")
                yield f"{kind}.{here}"
                if name not in (*_OTHERS, *_OPEN):
                    yield from _paths(kind, inner, here)


@functools.cache
def known_fields() -> frozenset[str]:
    """All fields of the four specs, without the inside of Kubernetes' own types."""
    found: set[str] = set()
    for crd in crd_documents():
        version = next(one for one in crd["spec"]["versions"] if one["name"] == "v1")
        schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        found |= set(_schema_paths(crd["spec"]["names"]["kind"], schema, ""))
    return frozenset(found)


def _schema_paths(kind: str, schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.{name}".strip(".")
        yield f"{kind}.{here}"
        if name in (*_OTHERS, *_OPEN, "rayClusterSpec", "rayClusterConfig"):
            continue
        yield from _schema_paths(kind, inner, here)
        yield from _schema_paths(kind, inner.get("items") or {}, here)


def known_causes() -> dict[str, ActionCause]:
    """Every cause of an action of a Ray controller: a planner's branch has one."""
    return {f"{kind}.{cause.name}": cause for kind, causes in _CAUSES.items() for cause in causes}


def known_reasons() -> frozenset[str]:
    """The reasons of the Events that actions leave."""
    found = [cause.event for cause in known_causes().values()]
    return frozenset(word for one in found for word in (one.done, one.failed) if word)
