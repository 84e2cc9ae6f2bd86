"""What the console lists before it answers, and what it asks first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from manta.api.resources import (
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

POD = {
    "metadata": {"name": "demo-head", "labels": {"ray.io/cluster": "demo"}},
    "spec": {"nodeName": "node-1", "containers": [{"name": "ray", "image": "ray"}]},
}


class Counting(InProcessTransport):
    """Counts requests, and holds those for Pods until they may go on."""

    def __init__(self, plane: MemoryPlane, user: User) -> None:
        super().__init__(plane.app, user)
        self.reviews = 0
        self.pods_may_go = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.path == SELF_SUBJECT_ACCESS_REVIEWS.path():
            self.reviews += 1
        return await super().send(request)

    down = False

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        if self.down:
            raise Unreachable("connection refused", sent=False)
        if request.path == PODS.path():
            await self.pods_may_go.wait()
        async with super().stream(request) as found:
            yield found


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
        "ours": {"app.kubernetes.io/component": "operator"},
    }
    others = {"web": {"app": "web"}, "db": {"app.kubernetes.io/component": "database"}, "bare": {}}
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


async def test_a_namespace_in_which_one_may_see_nothing_is_named() -> None:
    """Also one that a person has misspelt at the login."""
    ada = User("ada", ("system:authenticated",))
    rule = {"apiGroups": ["ray.io"], "resources": ["*"], "verbs": ["list", "watch"]}
    binding = {
        "metadata": {"name": "sees"},
        "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": "sees"},
        "subjects": [{"apiGroup": ROLES.group, "kind": "User", "name": "ada"}],
    }
    async with memory_plane(crds=ray_crds()) as plane:
        await plane.client.create(ROLES, "default", {"metadata": {"name": "sees"}, "rules": [rule]})
        await plane.client.create(ROLE_BINDINGS, "default", binding)
        watch = ObjectWatch(plane.client_as(ada), plane.clock, ("default", "nope"))
        try:
            await watch.start()
            hidden = watch.snapshot().hidden
            assert hidden["rayjobs"] == "you may not list rayjobs.ray.io in nope"
            assert hidden["pods"] == "you may not list pods"
        finally:
            await watch.close()
