"""The operator's validation, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

import msgspec

from manta.api.ray.cluster import RayCluster
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import RayJob
from manta.api.ray.manifest import Document, Manifest
from manta.api.ray.service import RayService
from manta.api.usage import InvalidValue
from manta.rules.settings import FeatureGates, Settings
from manta.rules.validation.cluster import cluster_violations
from manta.rules.validation.cronjob import cronjob_violations
from manta.rules.validation.job import validate_job
from manta.rules.validation.service import service_violations
from manta.rules.validation.violation import Violation

ALL_GATES: Final = Settings(
    gates=FeatureGates(**{one.name: True for one in fields(FeatureGates)}), cert_manager=True
)
"""The operator's gates are unknown here: what one of them may allow is not refused."""


def check(kind: type[Manifest], document: Document) -> None:
    """Raises InvalidValue for the first field that the operator would refuse."""
    try:
        manifest: Any = msgspec.json.decode(msgspec.json.encode(document), type=kind)
    except msgspec.ValidationError:
        kind.from_dict(document)  # raises the error with the field
        raise
    for violation in _violations(manifest):
        raise InvalidValue(violation.field, violation.value, violation.message)


def _violations(manifest: Any) -> Iterable[Violation]:
    match manifest:
        case RayCluster():
            return cluster_violations(manifest, ALL_GATES)
        case RayJob():
            return validate_job(manifest, ALL_GATES)
        case RayService():
            return service_violations(manifest, ALL_GATES)
        case RayCronJob():
            return cronjob_violations(manifest, ALL_GATES)
        case _:
            return ()
