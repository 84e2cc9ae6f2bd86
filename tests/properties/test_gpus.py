"""GPU allocation over generated Pods, crashes and restarts of the agent. MANTA_GPU_EXAMPLES=n: so many lives."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from manta.localplane.node.gpus.allocation import NoDeviceError
from manta.localplane.node.gpus.pool import RECORD, GpuPool, assign_to_nodes, read_holdings
from manta.localplane.node.pod.leftovers import remove_unknown_pods
from manta.localplane.node.spec.pod_spec import NodePod
from support.gpus import a_pod, asking, gpus

EXAMPLES = int(os.environ.get("MANTA_GPU_EXAMPLES", "60"))
NODES = ("manta-1", "manta-2")
GPUS = gpus(5)
counts = st.integers(0, 3)


class Allocation(RuleBasedStateMachine):
    """A Pod is alive from its creation until its last process has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.pods = self.directory / "pods"
        self.pods.mkdir()
        self.alive: dict[str, NodePod] = {}
        self.broken: frozenset[str] = frozenset()
        self.created = 0
        self.pool = self.new_pool()

    def new_pool(self) -> GpuPool:
        pool = GpuPool(assign_to_nodes(GPUS, NODES), self.pods)
        pool.set_broken(self.broken)
        return pool

    @rule(
        containers=st.lists(counts, min_size=1, max_size=3),
        init=st.lists(st.tuples(counts, st.booleans()), max_size=2),
        node=st.sampled_from(NODES),
    )
    def create(self, containers: list[int], init: list[tuple[int, bool]], node: str) -> None:
        self.created += 1
        before = [
            asking(count, f"init-{at}", **({"restartPolicy": "Always"} if sidecar else {}))
            for at, (count, sidecar) in enumerate(init)
        ]
        apps = [asking(count, f"app-{at}") for at, count in enumerate(containers)]
        pod = a_pod(*apps, init=tuple(before), uid=f"uid-{self.created}", node=node)
        (self.pods / pod.metadata.uid).mkdir()
        free = {gpu.id for gpu in self.pool.free(node)}
        try:
            holding = self.pool.give(pod)
        except NoDeviceError:
            assert not (self.pods / pod.metadata.uid / RECORD).exists()
            return
        self.alive[pod.metadata.uid] = pod
        assert (holding.ids if holding else set()) <= free

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def start_again(self, data: st.DataObject) -> None:
        """The sandbox of a Pod is made again: it has the same GPUs."""
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        before = self.pool.holdings.get(uid)
        assert self.pool.give(self.alive[uid]) == before

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        del self.alive[uid]
        self.pool.release(uid)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), recorded=st.booleans())
    def crash_while_a_pod_ends(self, data: st.DataObject, recorded: bool) -> None:
        """The agent is killed before or after it removed the record, and the Pod is gone when the next one starts."""
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        del self.alive[uid]
        if not recorded:
            self.pool.release(uid)
        self.crash()

    @rule(count=counts, node=st.sampled_from(NODES), deleted=st.booleans(), recorded=st.booleans())
    def crash_before_a_pod_starts(
        self, count: int, node: str, deleted: bool, recorded: bool
    ) -> None:
        """The agent is killed after it made the directory, or also the record; the Pod stays, or is deleted meanwhile."""
        self.created += 1
        pod = a_pod(asking(count, "app"), uid=f"uid-{self.created}", node=node)
        (self.pods / pod.metadata.uid).mkdir()
        holding = None
        if recorded:
            with suppress(NoDeviceError):
                holding = self.pool.give(pod)
        if not deleted:
            self.alive[pod.metadata.uid] = pod
        self.crash()
        assert self.pool.holdings.get(pod.metadata.uid) == (None if deleted else holding)
        if not deleted and holding is None:  # it waits; its own start is `create`
            del self.alive[pod.metadata.uid]

    @rule()
    def crash(self) -> None:
        """What the next agent does before it starts a Pod."""
        self.pool = self.new_pool()
        machine: Any = SimpleNamespace(
            directory=self.directory,
            isolated=True,
            cgroups=SimpleNamespace(remove=lambda _: True),
            gpus=SimpleNamespace(pool=self.pool),
            options=SimpleNamespace(on_kept=None),
        )
        asyncio.run(remove_unknown_pods(machine, self.alive))
        assert {one.name for one in self.pods.iterdir()} <= self.alive.keys()

    @rule(ids=st.frozensets(st.sampled_from([gpu.id for gpu in GPUS])))
    def fall_off_or_come_back(self, ids: frozenset[str]) -> None:
        self.broken = ids
        self.pool.set_broken(ids)

    @invariant()
    def no_gpu_is_given_twice(self) -> None:
        held = [id_ for one in self.pool.holdings.values() for id_ in one.ids]
        assert len(held) == len(set(held))

    @invariant()
    def containers_that_run_together_share_none(self) -> None:
        for uid, holding in self.pool.holdings.items():
            pod = self.alive[uid]
            together = [
                id_
                for one in pod.containers()
                if one in pod.spec.containers or pod.is_sidecar(one)
                for id_ in holding.containers.get(one.name, ())
            ]
            assert len(together) == len(set(together))

    @invariant()
    def only_living_pods_hold_gpus_and_the_disk_says_the_same(self) -> None:
        assert self.pool.holdings.keys() <= self.alive.keys()
        assert read_holdings(self.pods) == self.pool.holdings

    def teardown(self) -> None:
        for uid in self.alive:
            self.pool.release(uid)
        self.pool.set_broken(frozenset())
        free = {gpu.id for node in NODES for gpu in self.pool.free(node)}
        shutil.rmtree(self.directory)
        assert free == {gpu.id for gpu in GPUS}


pytestmark = pytest.mark.timeout(120 + EXAMPLES)
TestAllocation = Allocation.TestCase
TestAllocation.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
