"""The endpoints controller: what it watches, and its phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from manta.api.meta import Key, Object, ObjectMeta
from manta.api.resources import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from manta.api.well_known import (
    LABEL_ENDPOINT_SLICE_MANAGED_BY,
    LABEL_ENDPOINTS_MANAGED_BY,
    LABEL_SERVICE_NAME,
)
from manta.localplane.builtin.endpoints.membership import Membership
from manta.localplane.builtin.endpoints.plan import plan
from manta.localplane.builtin.endpoints.snapshot import MANAGER, Legacy, ServiceSnapshot
from manta.localplane.builtin.views import EndpointSlice, Json, Node, Pod, Service
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch, own_key
from manta.runtime.index import by_namespace


class Endpoints(Object, frozen=True, kw_only=True):
    subsets: tuple[Json, ...] | None = None


def _service_of(one: EndpointSlice) -> tuple[str, ...]:
    labels = one.metadata.labels
    name = labels.get(LABEL_SERVICE_NAME)
    mine = name and labels.get(LABEL_ENDPOINT_SLICE_MANAGED_BY) == MANAGER
    return (f"{one.metadata.namespace}/{name}",) if mine else ()


def _slice_keys(old: EndpointSlice | None, new: EndpointSlice | None) -> Iterable[Key]:
    names = {name for one in (old, new) if one is not None for name in _service_of(one)}
    return [Key(*name.split("/", 1)) for name in names]


class EndpointsController(Reconciler[ServiceSnapshot, Any]):
    name = "endpoint-slice-controller"

    def watches(self) -> Sequence[Watch[Any]]:
        informer = self.manager.informer
        self._membership = Membership()
        self._services = informer(SERVICES, Service)
        self._pods = informer(PODS, Pod, indexes={"namespace": by_namespace})
        self._nodes = informer(NODES, Node)
        self._slices = informer(ENDPOINT_SLICES, EndpointSlice, indexes={"service": _service_of})
        self._endpoints = informer(ENDPOINTS, Endpoints)
        return (
            Watch(self._services, self._service_keys),
            Watch(self._pods, self._pod_keys),
            Watch(self._nodes, self._node_keys),
            Watch(self._slices, _slice_keys),
            Watch(self._endpoints, own_key),
        )

    def _service_keys(self, old: Service | None, new: Service | None) -> Iterable[Key]:
        if new is not None:
            pods = self._pods.by("namespace", new.metadata.namespace)
            self._membership.set_service(new, pods)
        elif old is not None:
            self._membership.drop_service(old.metadata.key)
        return own_key(old, new)

    def _pod_keys(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        """The Services that select this Pod, or did, if its endpoint changed."""
        if old is not None and new is not None and _facts(old) == _facts(new):
            return ()
        return self._membership.change_pod(old, new)

    def _node_keys(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        """A new or deleted node changes which Pods count; its status does not."""
        if old is not None and new is not None:
            return ()
        return [service.metadata.key for service in self._services.all()]

    async def observe(self, key: Key) -> ServiceSnapshot | None:
        service = self._services.get(key)
        held = self._endpoints.get(key)
        legacy = Legacy(Object(metadata=held.metadata), held.subsets or ()) if held else None
        now = self.manager.clock.now()
        if service is None:
            mine = held is not None and LABEL_ENDPOINTS_MANAGED_BY in held.metadata.labels
            return ServiceSnapshot(key, None, (), {}, (), legacy, now) if mine else None
        found = (self._pods.get(one) for one in self._membership.members(key))
        pods = sorted((pod for pod in found if pod), key=lambda pod: pod.metadata.name)
        nodes = {
            name: node
            for name in {pod.spec.node_name for pod in pods}
            if (node := self._nodes.get(Key("", name))) is not None
        }
        slices = self._slices.by("service", str(key))
        return ServiceSnapshot(key, service, tuple(pods), nodes, slices, legacy, now)

    def plan(self, snapshot: ServiceSnapshot) -> Step[Any]:
        return Step(plan(snapshot))

    def subject(self, snapshot: ServiceSnapshot) -> Subject:
        if snapshot.service:
            return Subject(SERVICES, snapshot.service.metadata)
        return Subject(
            SERVICES, ObjectMeta(name=snapshot.key.name, namespace=snapshot.key.namespace)
        )


def _facts(pod: Pod) -> tuple[Any, ...]:
    """The fields of a Pod that its endpoint depends on."""
    return (
        pod.metadata.labels,
        pod.status.pod_ip,
        pod.spec.node_name,
        pod.is_ready,
        pod.is_deleting,
        pod.is_terminal,
    )
