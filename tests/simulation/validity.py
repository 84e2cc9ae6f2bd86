"""What the operator would say against an object. Most objects of a story should be valid: an invalid one teaches
little more than its Event. A generator may ask the code under test; an oracle may not."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from manta.api.ray.cluster import RayCluster
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import RayJob
from manta.api.ray.service import RayService
from manta.rules.settings import Settings
from manta.rules.validation.cluster import cluster_violations
from manta.rules.validation.cronjob import cronjob_violations
from manta.rules.validation.service import service_violations
from manta.rules.validation.whole_job import job_violations

Object = dict[str, Any]
T = TypeVar("T")


def problems(found: Object, settings: Settings) -> list[str]:
    """Empty: it is valid."""
    match found["kind"]:
        case "RayCluster":
            said = cluster_violations(_decoded(found, RayCluster), settings)
        case "RayJob":
            said = job_violations(_decoded(found, RayJob), {}, settings)
        case "RayService":
            said = service_violations(_decoded(found, RayService), settings)
        case _:
            said = cronjob_violations(_decoded(found, RayCronJob), settings)
    return [str(one) for one in said]


def _decoded(found: Object, into: type[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(found), type=into)
