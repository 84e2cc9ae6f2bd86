"""A Deployment and its ReplicaSets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from manta.api.names import SUFFIX_ALPHABET
from manta.api.well_known import ANNOTATION_REVISION
from manta.localplane.builtin.views import Deployment, ReplicaSet

HASH_LABEL = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class DeploymentSnapshot:
    deployment: Deployment
    replica_sets: tuple[ReplicaSet, ...]
    """The ReplicaSets that it controls."""
    now: datetime

    @property
    def newest(self) -> ReplicaSet | None:
        """The ReplicaSet of the present template; of several the oldest, so that all agree."""
        wanted = bare_template(self.deployment.spec.template)
        same = [one for one in self.replica_sets if bare_template(one.spec.template) == wanted]
        return min(same, key=by_age, default=None)

    @property
    def older(self) -> tuple[ReplicaSet, ...]:
        newest = self.newest
        return tuple(one for one in self.replica_sets if one is not newest)


def by_age(replica_set: ReplicaSet) -> tuple[str, str]:
    return replica_set.metadata.creation_timestamp, replica_set.metadata.name


def bare_template(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template without the label that we added to it."""
    meta = template.get("metadata") or {}
    labels = {name: text for name, text in (meta.get("labels") or {}).items() if name != HASH_LABEL}
    rest = {name: value for name, value in meta.items() if value and name != "labels"}
    return {**template, "metadata": {**rest, "labels": labels}}


def template_hash(template: Mapping[str, Any]) -> str:
    """Ten letters that stand for the template in the names of ReplicaSets and Pods."""
    text = msgspec.json.encode(bare_template(template), order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest()[:8])
    letters = []
    for _ in range(10):
        number, index = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[index])
    return "".join(letters)


def revision(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(ANNOTATION_REVISION, "0")
    return int(text) if text.isdigit() else 0
