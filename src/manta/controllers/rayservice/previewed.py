"""The world of one RayService, read once from the server: for a preview, which keeps no caches."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import msgspec

from manta.api.core import Pod, Service
from manta.api.discovery import EndpointSlice
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.ray.service import RayServiceStatus, RayServiceStatuses
from manta.api.resources import ENDPOINT_SLICES, PODS, SERVICES
from manta.controllers.rayservice.asker import Heard
from manta.controllers.rayservice.inquire import Question
from manta.controllers.rayservice.observe import (
    BY_SERVICE,
    BY_SERVICE_NAME,
    BY_SERVING_CLUSTER,
    SERVE_SLICES,
    CachedRayService,
    Caches,
    Observer,
    WatchKey,
    by_service,
    by_service_name,
    by_serving_cluster,
)
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.submissions import SubmissionMemory
from manta.kube.client import Client
from manta.ray.models import ApplicationStatus, ServeStatus
from manta.reconcile.rehearsal import Document, Indexes, Reader
from manta.rules.selection import RAY_PODS
from manta.rules.settings import Settings
from manta.runtime.clock import Clock

_INDEXES: Indexes = {
    BY_SERVICE: by_service,
    BY_SERVING_CLUSTER: by_serving_cluster,
    BY_SERVICE_NAME: by_service_name,
}


async def read_world(
    client: Client, settings: Settings, clock: Clock, key: Key, wanted: Document
) -> ServiceSnapshot | None:
    """What a round would see if this object were there; None when it would leave it alone."""
    service = msgspec.json.decode(msgspec.json.encode(_begun(wanted)), type=CachedRayService)

    reader = Reader(client, key.namespace, _INDEXES)
    listed = reader.listed
    caches = Caches(
        ray_services=reader.only(service),
        clusters=await listed(RAY_CLUSTERS, RayCluster),
        pods=await listed(PODS, Pod, RAY_PODS),
        services=await listed(SERVICES, Service),
        slices=await listed(ENDPOINT_SLICES, EndpointSlice, SERVE_SLICES),
    )
    said = cast("Any", _SaidBefore(service.status))
    chance = Random(0)  # noqa: S311  a name of a cluster that is never made
    observer = Observer(
        caches,
        client,
        said,
        _ask,
        clock,
        chance,
        settings,
        submissions=SubmissionMemory(),
        probes=_NoProbes(),
    )
    return await observer.observe(key)


def _begun(wanted: Document) -> Document:
    """With our finalizer, which is all that a first round would add."""
    meta = dict(wanted["metadata"])
    if "deletionTimestamp" not in meta:
        meta["finalizers"] = [*meta.get("finalizers", ()), names.FINALIZER_RAY_SERVICE]
    return {**wanted, "metadata": meta}


async def _ask(_: Question) -> Heard:
    raise AssertionError("a preview asks no dashboard")


class _NoProbes:
    """A preview probes nothing."""

    def __call__(self, subject: WatchKey, asked: Question) -> bool | None:
        return None

    def forget(self, subject: WatchKey) -> None:
        """Nothing to forget."""


class _SaidBefore:
    """Answers for every dashboard with what the status says that it said."""

    def __init__(self, status: RayServiceStatuses) -> None:
        sides = (status.active_service_status, status.pending_service_status)
        self._answers = {side.ray_cluster_name: _answer(side) for side in sides}

    def answer(self, subject: WatchKey, *_: object, **__: object) -> Heard | None:
        return self._answers.get(subject.cluster)

    def forget(self, subject: WatchKey) -> None:
        pass


def _answer(side: RayServiceStatus) -> Heard:
    told = {
        name: ApplicationStatus(status=one.status, message=one.message)
        for name, one in side.application_statuses.items()
    }
    return Heard(ServeStatus(applications=told))
