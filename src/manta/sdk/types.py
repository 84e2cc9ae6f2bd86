"""The types of the four kinds, with docstrings from the descriptions that their CRDs have.

>>> print(RayClusterSpec.__doc__.splitlines()[2])
ray_version: Version of Ray in the images.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Annotated, get_args, get_origin, get_type_hints

import msgspec

from manta.api import meta
from manta.api.ray import cluster, cronjob, job, service
from manta.api.ray.cluster import (
    HeadGroupSpec,
    RayCluster,
    RayClusterSpec,
    RayClusterStatus,
    WorkerGroupSpec,
)
from manta.api.ray.cronjob import RayCronJob, RayCronJobSpec, RayCronJobStatus
from manta.api.ray.job import RayJob, RayJobSpec, RayJobStatus
from manta.api.ray.service import RayService, RayServiceSpec, RayServiceStatuses

__all__ = [
    "HeadGroupSpec",
    "RayCluster",
    "RayClusterSpec",
    "RayClusterStatus",
    "RayCronJob",
    "RayCronJobSpec",
    "RayCronJobStatus",
    "RayJob",
    "RayJobSpec",
    "RayJobStatus",
    "RayService",
    "RayServiceSpec",
    "RayServiceStatuses",
    "WorkerGroupSpec",
    "structs",
]


def structs() -> Iterator[type[msgspec.Struct]]:
    """Every type that an object of the four kinds consists of."""
    for module in (cluster, job, service, cronjob):
        yield from _structs_of(module)


def _structs_of(module: ModuleType) -> Iterator[type[msgspec.Struct]]:
    for value in vars(module).values():
        is_struct = isinstance(value, type) and issubclass(value, meta.View)
        if is_struct and value.__module__ == module.__name__:
            yield value


def _describe(struct: type[msgspec.Struct]) -> None:
    """Give the docstring a line for each field."""
    first = (struct.__doc__ or "").strip() or f"Part of a {struct.__module__.rpartition('.')[2]}."
    hints = get_type_hints(struct, include_extras=True)
    lines = [f"{name}: {_description(hints[name])}" for name in struct.__struct_fields__]
    struct.__doc__ = "\n".join((first, "", *lines))


def _description(hint: object) -> str:
    found = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    texts = [one.description for one in found if isinstance(one, msgspec.Meta)]
    return next((text for text in texts if text), "as in every object of Kubernetes.")


for _struct in structs():
    _describe(_struct)
