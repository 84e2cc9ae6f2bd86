"""What the console lists before it answers, and what it asks first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CORE_EVENTS,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SELF_SUBJECT_ACCESS_REVIEWS,
)
from manta.console.object_watch import (
    ObjectWatch,
)
from manta.console.pages.fleet import filter_of, fleet
from manta.httpserver.messages import User
from manta.kube.client import Client
from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response, StreamResponse
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.inprocess import InProcessTransport
from support.plane import MemoryPlane, memory_plane
from support.raycrds import ray_crds

POD: dict[str, Any] = {
    "metadata": {"name": "demo-head", "labels": {"ray.io/cluster": "demo"}},
    "spec": {"nodeName": "node-1", "containers": [{"name": "ray", "image": "ray"}]},
}


class Ending:
    """A stream that ends when its transport says so."""

    def __init__(self, stream: StreamResponse, transport: Counting) -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._chunks = stream.chunks
        self._transport = transport

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks():
            yield chunk
            if self._transport.ending:
                return


class Counting(InProcessTransport):
    """Counts requests, and holds those for Pods until they may go on."""

    def __init__(self, plane: MemoryPlane, user: User) -> None:
        super().__init__(plane.app, user)
        self.reviews = 0
        self.reviews_may_go = asyncio.Event()
        self.reviews_may_go.set()
        self.reviews_wait = False
        self.streams = 0
        self.open: list[str] = []
        self.ending = False
        """Whether a watch ends after its next event."""
        self.pods_may_go = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.path == SELF_SUBJECT_ACCESS_REVIEWS.path():
            self.reviews += 1
            self.reviews_wait = not self.reviews_may_go.is_set()
            await self.reviews_may_go.wait()
        return await super().send(request)

    down = False

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        if self.down:
            raise Unreachable("connection refused", sent=False)
        if request.path == PODS.path():
            await self.pods_may_go.wait()
        self.streams += 1
        async with super().stream(request) as found:
            self.open.append(request.path)
            try:
                yield Ending(found, self)
            finally:
                self.open.remove(request.path)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def test_the_first_page_does_not_wait_for_thousands_of_pods() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        await plane.client.create(PODS, "default", POD)
        await plane.client.create(NODES, "", {"metadata": {"name": "node-1"}})
        transport = Counting(plane, ADMIN)
        watch = ObjectWatch(Client(transport), plane.clock)
        try:
            await watch.start()
            early = watch.snapshot()
            assert early.hidden["pods"] == "pods are still being listed"
            assert "not known: pods are still being listed" in fleet(early, filter_of(())).body()
            transport.pods_may_go.set()
            version = watch.version
            await eventually(lambda: "pods" not in watch.snapshot().hidden)
            await eventually(lambda: watch.version > version)  # open pages are told
            assert [pod.metadata.name for pod in watch.snapshot().pods] == ["demo-head"]
        finally:
            await watch.close()


async def test_one_question_is_enough_for_who_may_do_everything() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        transport = Counting(plane, ADMIN)
        transport.pods_may_go.set()
        watch = ObjectWatch(Client(transport), plane.clock)
        try:
            await watch.start()
            assert transport.reviews == 1
            assert not watch.snapshot().hidden
        finally:
            await watch.close()


async def test_who_may_do_nothing_sees_nothing_and_reads_why() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        transport = Counting(plane, User("nobody", ("system:authenticated",)))
        watch = ObjectWatch(Client(transport), plane.clock)
        try:
            await watch.start()
            assert watch.snapshot().hidden["rayjobs"] == "you may not list rayjobs.ray.io"
            assert watch.snapshot().hidden["pods"] == "you may not list pods"
        finally:
            await watch.close()


async def test_of_all_pods_those_of_ray_and_of_operators_are_kept_each_once() -> None:
    wanted = {
        "head": {"ray.io/cluster": "demo"},
        "of-a-job": {"ray.io/cluster": "demo", "ray.io/originated-from-cr-name": "train"},
        "submitter": {"ray.io/originated-from-cr-name": "train"},
        "operator": {"app.kubernetes.io/component": "kuberay-operator"},
        "ours": {"app.kubernetes.io/component": "operator", "app.kubernetes.io/name": "manta"},
    }
    others = {
        "another": {"app.kubernetes.io/component": "operator"},
        "web": {"app": "web"},
        "db": {"app.kubernetes.io/component": "database"},
        "bare": {},
    }
    async with memory_plane(crds=ray_crds()) as plane:
        for name, labels in (wanted | others).items():
            body = {"metadata": {"name": name, "labels": labels}, "spec": POD["spec"]}
            await plane.client.create(PODS, "default", body)
        watch = ObjectWatch(plane.client, plane.clock)
        try:
            await watch.start()
            await eventually(lambda: not watch.snapshot().hidden)
            found = sorted(pod.metadata.name for pod in watch.snapshot().pods)
            assert found == sorted(wanted)
        finally:
            await watch.close()


async def test_a_watch_that_fails_is_told_until_it_works_again() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        transport = Counting(plane, ADMIN)
        transport.pods_may_go.set()
        transport.down = True
        watch = ObjectWatch(Client(transport), plane.clock)
        try:
            await watch.start()
            await eventually(lambda: "connection refused" in watch.trouble())
            transport.down = False
            await eventually(lambda: not watch.trouble())
        finally:
            await watch.close()


async def test_events_of_ray_objects_and_of_pods_are_kept() -> None:
    about = {
        "of-a-cluster": {"apiVersion": "ray.io/v1", "kind": "RayCluster"},
        "of-a-pod": {"apiVersion": "v1", "kind": "Pod"},
        "of-a-node": {"apiVersion": "v1", "kind": "Node"},
        "of-a-job": {"apiVersion": "batch/v1", "kind": "Job"},
    }
    async with memory_plane(crds=ray_crds()) as plane:
        await plane.client.create(
            PODS, "default", {**POD, "metadata": {**POD["metadata"], "name": "x"}}
        )
        for name, one in about.items():
            reference = {**one, "name": "x", "namespace": "default"}
            body = {"metadata": {"name": name}, "involvedObject": reference}
            await plane.client.create(CORE_EVENTS, "default", body)
        watch = ObjectWatch(plane.client, plane.clock)
        try:
            await watch.start()
            await eventually(lambda: not watch.snapshot().hidden)
            found = sorted(event.metadata.name for event in watch.snapshot().events)
            assert found == ["of-a-cluster", "of-a-pod"]
        finally:
            await watch.close()


ADA = User("ada", ("system:authenticated",))
CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "demo"},
    "spec": {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD["spec"]}}},
}


async def may_see(plane: MemoryPlane, namespace: str) -> None:
    """Let ada see Ray objects there; without a namespace, in all of them."""
    rule = {"apiGroups": ["ray.io"], "resources": ["*"], "verbs": ["list", "watch"]}
    role, binding = (ROLES, ROLE_BINDINGS) if namespace else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    body = {
        "metadata": {"name": "sees"},
        "roleRef": {"apiGroup": ROLES.group, "kind": role.kind, "name": "sees"},
        "subjects": [{"apiGroup": ROLES.group, "kind": "User", "name": "ada"}],
    }
    await plane.client.create(role, namespace, {"metadata": {"name": "sees"}, "rules": [rule]})
    await plane.client.create(binding, namespace, body)


@asynccontextmanager
async def watching(
    client: Client, plane: MemoryPlane, *namespaces: str
) -> AsyncIterator[ObjectWatch]:
    watch = ObjectWatch(client, plane.clock, namespaces)
    try:
        await watch.start()
        yield watch
    finally:
        await watch.close()


def shown(watch: ObjectWatch) -> list[str]:
    return [str(one.key) for one in watch.snapshot().items]


@pytest.mark.parametrize("namespace", ["default", ""])
async def test_what_may_no_longer_be_seen_is_gone_after_a_review(namespace: str) -> None:
    """The open watches go on: Kubernetes asks for rights only when one begins."""
    async with memory_plane(crds=ray_crds()) as plane:
        await may_see(plane, namespace)
        await plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
        transport = Counting(plane, ADA)
        async with watching(Client(transport), plane, "default") as watch:
            assert shown(watch) == ["default/demo"]
            version = watch.version
            bindings = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
            await plane.client.delete(bindings, Key(namespace, "sees"))
            await watch.review()
            assert not shown(watch)
            assert watch.snapshot().hidden["rayclusters"] == "you may not list rayclusters.ray.io"
            assert watch.version > version  # open pages are told
            assert not [one for one in transport.open if "rayclusters" in one]


@pytest.mark.parametrize("namespace", ["default", ""])
async def test_what_may_be_seen_now_comes_with_a_review(namespace: str) -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        await plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
        async with watching(plane.client_as(ADA), plane, "default") as watch:
            assert not shown(watch)
            await may_see(plane, namespace)
            await watch.review()
            await eventually(lambda: shown(watch) == ["default/demo"])
            assert "rayclusters" not in watch.snapshot().hidden


async def test_a_review_that_changes_nothing_lists_nothing_again() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        await may_see(plane, "default")
        transport = Counting(plane, ADA)
        async with watching(Client(transport), plane, "default") as watch:
            version, streams, reviews = watch.version, transport.streams, transport.reviews
            await watch.review()
            assert (watch.version, transport.streams) == (version, streams)
            assert transport.reviews - reviews <= 8  # and one for the rules of the namespace


async def test_a_review_that_is_answered_after_the_end_begins_nothing() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        transport = Counting(plane, ADA)
        async with watching(Client(transport), plane) as watch:
            await may_see(plane, "")
            transport.reviews_may_go.clear()
            review = asyncio.create_task(watch.review())
            await eventually(lambda: transport.reviews_wait)
        transport.reviews_may_go.set()
        await review
        tasks = [one.get_name() for one in asyncio.all_tasks()]
        assert not [one for one in tasks if one.startswith("watch ")]


async def test_a_watch_that_is_refused_takes_its_objects_with_it() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        await may_see(plane, "")
        await plane.client.create(RAY_CLUSTERS, "default", CLUSTER)
        transport = Counting(plane, ADA)
        async with watching(Client(transport), plane) as watch:
            assert shown(watch) == ["default/demo"]
            await plane.client.delete(CLUSTER_ROLE_BINDINGS, Key("", "sees"))
            transport.ending = True
            suspended = {"spec": {"suspend": True}}
            await plane.client.patch(RAY_CLUSTERS, Key("default", "demo"), suspended)
            await eventually(lambda: not shown(watch))
            assert watch.snapshot().hidden["rayclusters"] == "you may not list rayclusters.ray.io"
            assert not watch.trouble()


async def test_a_namespace_in_which_one_may_see_nothing_is_named() -> None:
    """Also one that a person has misspelt at the login."""
    async with memory_plane(crds=ray_crds()) as plane:
        await may_see(plane, "default")
        async with watching(plane.client_as(ADA), plane, "default", "nope") as watch:
            hidden = watch.snapshot().hidden
            assert hidden["rayjobs"] == "you may not list rayjobs.ray.io in nope"
            assert hidden["pods"] == "you may not list pods"


async def test_only_the_events_of_rays_pods_are_kept() -> None:
    """A cluster has those of thousands of other Pods."""
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD["spec"]}}}
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "demo"}}
    async with memory_plane(crds=ray_crds()) as plane:
        client = plane.client
        await client.create(RAY_CLUSTERS, "default", {**cluster, "spec": spec})
        pod = {**POD, "metadata": {**POD["metadata"], "name": "a-name-of-its-own"}}
        await client.create(PODS, "default", pod)
        for name in ("a-name-of-its-own", "demo-worker-gone", "web-x7k2p", "demolition-1"):
            await client.create(CORE_EVENTS, "default", pod_event(name))
        watch = ObjectWatch(client, plane.clock)
        try:
            await watch.start()
            await eventually(lambda: len(watch.snapshot().events) >= 2)
            await client.create(CORE_EVENTS, "default", pod_event("web-y"))
            await client.create(RAY_CLUSTERS, "default", {**cluster, "metadata": {"name": "new"}, "spec": spec})  # fmt: skip
            await eventually(lambda: watch.snapshot().get("RayCluster", Key("default", "new")) is not None)  # fmt: skip
            await client.create(CORE_EVENTS, "default", pod_event("new-head-x"))
            await eventually(lambda: len(watch.snapshot().events) >= 3)
            about = {one.involved_object.name for one in watch.snapshot().events}
            assert about == {"a-name-of-its-own", "demo-worker-gone", "new-head-x"}
        finally:
            await watch.close()


def pod_event(name: str) -> dict[str, object]:
    about = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default"}
    return {"metadata": {"name": f"event-{name}"}, "involvedObject": about, "reason": "Pulled"}
