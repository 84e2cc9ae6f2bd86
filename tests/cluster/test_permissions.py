"""The operator's permissions against what it really asks for: nothing less, and nothing more.

Stories of all kinds and features run on the embedded server, which enforces the very table that the
chart is made from. Every request is noted in RBAC's words; the first reply to each kind of write is lost,
so that the operator looks again as it would on a bad day.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GATEWAYS,
    HTTP_ROUTES,
    INGRESSES,
    JOBS,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SERVICES,
    WORKLOAD_POD_GROUPS,
    WORKLOADS,
    Resource,
)
from manta.api.well_known import FINALIZER_POD_GROUP
from manta.httpserver.messages import User
from manta.install.permissions import (
    LEASE_PERMISSIONS,
    MTLS,
    OPENSHIFT,
    PERMISSIONS,
    PROXY,
    WAS,
    default_features,
    rules,
)
from manta.kube.client import Client
from manta.localplane.inprocess import InProcessTransport
from manta.manifests.rbac import autoscaler_rules
from manta.operator.options import Options
from manta.operator.platform import Platform
from manta.operator.process import assemble, new_manager
from manta.rules.settings import FeatureGates, Settings
from manta.runtime.election import Election
from manta.runtime.gate import WriteGate
from support.certmanager import CertManager, cert_manager_crds
from support.fake_ray import FakeRay
from support.fakenodes import FakeCluster, fake_cluster
from support.permissions import RecordingTransport, Used
from support.raycluster import NAMESPACE, group, ray_cluster
from support.raycrds import ray_crds
from support.raycronjob import ray_cron_job
from support.rayjob import ray_job
from support.rayservice import GATEWAY_CRDS
from support.rayservice_objects import incremental, ray_service, scaled_config
from support.virtual import running, virtually

HOME = "manta-system"
ACCOUNT = User(
    f"system:serviceaccount:{HOME}:manta", ("system:serviceaccounts", "system:authenticated")
)
GATES = FeatureGates(
    ray_cluster_network_policy=True, gcs_fault_tolerance_embedded_storage=True, ray_cron_job=True
)
SWITCHED_ON = {PROXY, "RayClusterNetworkPolicy", "GCSFaultToleranceEmbeddedStorage"}
OF_KUBERNETES = (WORKLOADS, WORKLOAD_POD_GROUPS)
POD_GROUPS = {
    "volcano": Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
    "scheduler-plugins": Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"),
}
Check = Callable[[dict[str, Any]], object]


def _crd(resource: Resource) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": resource.version, "served": True, "storage": True}
    version |= {"schema": {"openAPIV3Schema": schema}}
    names = {"plural": resource.plural, "singular": "one", "kind": resource.kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": resource.group_resource,
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


@dataclass
class Story:
    """An operator under its own account, and what it asked for."""

    cluster: FakeCluster
    transport: RecordingTransport
    ray: FakeRay
    features: set[str]
    home: str = NAMESPACE
    _seen: set[str] = field(default_factory=set)

    @property
    def client(self) -> Client:
        return self.cluster.client

    async def create(self, resource: Resource, document: dict[str, Any]) -> None:
        await self.client.create(resource, NAMESPACE, document)

    async def change(self, resource: Resource, name: str, body: dict[str, Any]) -> None:
        await self.client.patch(resource, Key(NAMESPACE, name), body)

    async def until(self, resource: Resource, name: str, check: Check = bool) -> None:
        async def there() -> object:
            found = await self.cluster.get(resource, name)
            return found is not None and check(found)

        try:
            await self.cluster.until(there, 300)
        except TimeoutError:
            last = await self.cluster.get(resource, name)
            pytest.fail(f"{resource.kind} {name} did not get there: {(last or {}).get('status')}")

    async def until_ready(self, name: str) -> None:
        await self.until(RAY_CLUSTERS, name, _ready)

    async def gone(self, resource: Resource, name: str) -> None:
        await self.client.delete(resource, Key(NAMESPACE, name))
        await self.cluster.until_gone(resource, name)

    async def submit(self) -> None:
        """Plays the Pods of submitter Jobs."""
        while True:
            for job in (await self.client.list(JOBS, NAMESPACE)).items:
                env = _environment(job)
                if "RAY_JOB_SUBMISSION_ID" in env and job["metadata"]["uid"] not in self._seen:
                    self._seen.add(job["metadata"]["uid"])
                    service = env["RAY_DASHBOARD_ADDRESS"].partition(".")[0]
                    head = self.ray.head(NAMESPACE, service)
                    self.ray.start(service, head, env["RAY_JOB_SUBMISSION_ID"], "main.py")
            await asyncio.sleep(1)

    async def accept_routes(self) -> None:
        """Plays a Gateway controller."""
        true = [
            {"type": one, "status": "True", "reason": one} for one in ("Accepted", "Programmed")
        ]
        resolved = [*true, {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs"}]
        while True:
            for one in (await self.client.list(GATEWAYS, NAMESPACE)).items:
                await self._say(GATEWAYS, one, {"conditions": true})
            for one in (await self.client.list(HTTP_ROUTES, NAMESPACE)).items:
                parent = {"parentRef": one["spec"]["parentRefs"][0], "controllerName": "test"}
                await self._say(HTTP_ROUTES, one, {"parents": [parent | {"conditions": resolved}]})
            await asyncio.sleep(0.5)

    async def _say(self, resource: Resource, one: dict[str, Any], status: dict[str, Any]) -> None:
        if "status" not in one:
            key = Key(NAMESPACE, one["metadata"]["name"])
            await self.client.patch(resource, key, {"status": status}, subresource="status")


def _ready(cluster: dict[str, Any]) -> bool:
    return bool((cluster.get("status") or {}).get("state") == "ready")


def _runs(job: dict[str, Any]) -> bool:
    return bool((job.get("status") or {}).get("jobStatus") == "RUNNING")


def _environment(job: dict[str, Any]) -> dict[str, str]:
    [container, *_] = job["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container.get("env") or ()}


async def _grant(client: Client, features: set[str]) -> None:
    subject = {"kind": "ServiceAccount", "name": "manta", "namespace": HOME}
    group_ = CLUSTER_ROLES.group
    await client.create(NAMESPACES, "", {"metadata": {"name": HOME}})
    role = {"metadata": {"name": "manta"}, "rules": rules(features)}
    await client.create(CLUSTER_ROLES, "", role)
    reference = {"apiGroup": group_, "kind": "ClusterRole", "name": "manta"}
    binding = {"metadata": {"name": "manta"}, "roleRef": reference, "subjects": [subject]}
    await client.create(CLUSTER_ROLE_BINDINGS, "", binding)
    leader = {"metadata": {"name": "leader"}, "rules": [one.rule for one in LEASE_PERMISSIONS]}
    await client.create(ROLES, HOME, leader)
    reference = {"apiGroup": group_, "kind": "Role", "name": "leader"}
    binding = {"metadata": {"name": "leader"}, "roleRef": reference, "subjects": [subject]}
    await client.create(ROLE_BINDINGS, HOME, binding)


@asynccontextmanager
async def a_story(
    scheduler: str = "", *, openshift: bool = False, mtls: bool = False, was: bool = False
) -> AsyncIterator[Story]:
    features = SWITCHED_ON | default_features() | ({OPENSHIFT} if openshift else set())
    features |= ({scheduler} if scheduler else set()) | ({MTLS} if mtls else set())
    features |= {WAS} if was else set()
    extra = [
        *GATEWAY_CRDS,
        *cert_manager_crds(),
        *(_crd(one) for one in (ROUTES, *POD_GROUPS.values(), *OF_KUBERNETES)),
    ]
    async with fake_cluster(4, crds=[*ray_crds(), *extra]) as cluster:
        await _grant(cluster.client, features)
        ray = FakeRay(finish_after=5.0, deploy_after=3.0)
        transport = RecordingTransport(InProcessTransport(cluster.plane.app, ACCOUNT), ray)
        story = Story(cluster, transport, ray, features)
        settings = Settings(
            gates=replace(GATES, ray_cluster_mtls=mtls, kubernetes_was=was),
            use_kubernetes_proxy=True,
            batch_scheduler=scheduler,
        )
        options = Options(settings, None, None)
        clock, client = cluster.plane.clock, Client(transport)
        manager = new_manager(client, clock, Random(7), options)
        assemble(manager, options, Platform((1, 35), openshift=openshift, cert_manager=mtls))
        lease = Key(HOME, "ray-operator-leader")
        election = Election(clock, Random(1), WriteGate(clock), lease=lease, identity="one")
        async with running(
            manager.run(),
            election.run(client),
            story.submit(),
            story.accept_routes(),
            CertManager(cluster.client).run(),
        ):
            yield story


# ── the stories ──────────────────────────────────────────────────────────────────────────


async def a_cluster_with_everything(story: Story) -> None:
    spec: dict[str, Any] = {
        "enableInTreeAutoscaling": True,
        "authOptions": {"mode": "token"},
        "networkPolicy": {"mode": "DenyAllIngress"},
        "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
    }
    await story.create(
        RAY_CLUSTERS,
        ray_cluster(
            "full",
            [group(replicas=3)],
            head={"enableIngress": True},
            annotations={"manta.ray.io/protect-head": "true"},
            **spec,
        ),
    )
    await story.until_ready("full")
    await story.change(RAY_CLUSTERS, "full", {"spec": {"workerGroupSpecs": [group(replicas=1)]}})
    await story.until(RAY_CLUSTERS, "full", lambda one: one["status"]["desiredWorkerReplicas"] == 1)


async def a_cluster_that_is_rolled(story: Story) -> None:
    strategy = {"type": "RollingUpdate"}
    await story.create(
        RAY_CLUSTERS, ray_cluster("rolled", [group(replicas=1)], upgradeStrategy=strategy)
    )
    await story.until_ready("rolled")
    for number in range(12):
        changed = group(replicas=1, rayStartParams={"num-cpus": str(number + 1)})
        await story.change(RAY_CLUSTERS, "rolled", {"spec": {"workerGroupSpecs": [changed]}})
        await asyncio.sleep(120)
    await story.gone(RAY_CLUSTERS, "rolled")


async def what_was_changed_by_others_is_repaired(story: Story) -> None:
    await story.change(SERVICES, "full-head-svc", {"spec": {"selector": {"ray.io/cluster": "x"}}})
    await story.change(ROLES, "full", {"rules": []})
    await story.change(ROLE_BINDINGS, "full", {"subjects": []})
    await asyncio.sleep(10)
    await _replace_binding(story)
    for name in await story.cluster.names(INGRESSES):
        await story.change(INGRESSES, name, {"spec": {"rules": [{"host": "elsewhere"}]}})
    for name in await story.cluster.names(NETWORK_POLICIES):
        other = {"podSelector": {"matchLabels": {"ray.io/cluster": "x"}}}
        await story.change(NETWORK_POLICIES, name, {"spec": other})
    await story.change(POD_DISRUPTION_BUDGETS, "full-head", {"spec": {"minAvailable": 0}})
    await asyncio.sleep(30)
    unprotected = {"annotations": {"manta.ray.io/protect-head": None}}
    change = {"metadata": unprotected, "spec": {"networkPolicy": None}}
    await story.change(RAY_CLUSTERS, "full", change)
    await asyncio.sleep(30)


async def _replace_binding(story: Story) -> None:
    """A binding to another Role can only be replaced."""
    found = await story.client.get(ROLE_BINDINGS, Key(NAMESPACE, "full"))
    meta = {key: found["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    await story.client.delete(ROLE_BINDINGS, Key(NAMESPACE, "full"))
    wrong = {**found, "metadata": meta, "roleRef": {**found["roleRef"], "name": "other"}}
    await story.client.create(ROLE_BINDINGS, NAMESPACE, wrong)


async def a_cluster_goes_and_its_redis_is_cleaned(story: Story) -> None:
    await story.gone(RAY_CLUSTERS, "full")


async def a_cluster_with_storage_of_its_own(story: Story) -> None:
    storage = {"size": "1Gi", "deletionPolicy": "DeleteWithCluster"}
    options = {"backend": "rocksdb", "storage": storage}
    await story.create(RAY_CLUSTERS, ray_cluster("stored", gcsFaultToleranceOptions=options))
    await story.until_ready("stored")
    retained = {"backend": "rocksdb", "storage": {"size": "1Gi", "deletionPolicy": "Retain"}}
    await story.change(RAY_CLUSTERS, "stored", {"spec": {"gcsFaultToleranceOptions": retained}})
    [claim] = await story.cluster.names(PERSISTENT_VOLUME_CLAIMS)
    await story.until(
        PERSISTENT_VOLUME_CLAIMS, claim, lambda one: not one["metadata"].get("ownerReferences")
    )


async def jobs_of_every_mode(story: Story) -> None:
    rule = {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 1}}
    last = {"policy": "DeleteSelf", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 9}}
    ending: dict[str, Any] = {"deletionStrategy": {"deletionRules": [rule, last]}}
    for mode in ("K8sJobMode", "HTTPMode", "SidecarMode"):
        name = f"job-{mode[0].lower()}"
        await story.create(RAY_JOBS, ray_job(name, submissionMode=mode, **ending))
    for mode in ("K8sJobMode", "HTTPMode"):
        await story.cluster.until_gone(RAY_JOBS, f"job-{mode[0].lower()}")
    await story.create(RAY_JOBS, ray_job("paused", shutdownAfterJobFinishes=True))
    await story.until(RAY_JOBS, "paused", _runs)
    await story.change(RAY_JOBS, "paused", {"spec": {"suspend": True}})
    await asyncio.sleep(30)
    await story.gone(RAY_JOBS, "paused")


async def a_timetable(story: Story) -> None:
    selector = {"ray.io/cluster": "stored"}
    template = {"entrypoint": "main.py", "clusterSelector": selector, "submissionMode": "HTTPMode"}
    await story.create(
        RAY_CRON_JOBS, ray_cron_job(jobTemplate=template, successfulJobsHistoryLimit=1)
    )
    await asyncio.sleep(300)
    await story.gone(RAY_CRON_JOBS, "tick")


async def a_service_that_is_upgraded(story: Story) -> None:
    await story.create(RAY_SERVICES, ray_service("plain"))
    await story.until(RAY_SERVICES, "plain", _serves)
    await story.change(SERVICES, "plain-serve-svc", {"spec": {"selector": {"a": "b"}}})
    await story.change(RAY_SERVICES, "plain", {"spec": {"suspend": True}})
    await asyncio.sleep(60)
    await story.gone(RAY_SERVICES, "plain")


async def a_service_that_is_upgraded_in_steps(story: Story) -> None:
    spec = {"upgradeStrategy": incremental(), "rayClusterConfig": scaled_config()}
    await story.create(RAY_SERVICES, ray_service("steps", **spec))
    await story.until(RAY_SERVICES, "steps", _serves)
    await story.change(
        RAY_SERVICES,
        "steps",
        {"spec": {"rayClusterConfig": scaled_config("rayproject/ray:2.61.0")}},
    )
    await asyncio.sleep(15)
    for name in await story.cluster.names(GATEWAYS):
        await story.change(GATEWAYS, name, {"spec": {"gatewayClassName": "another"}})
    await asyncio.sleep(180)
    await story.change(RAY_SERVICES, "steps", {"spec": {"upgradeStrategy": {"type": "NewCluster"}}})
    await asyncio.sleep(120)
    await story.gone(RAY_SERVICES, "steps")


def _serves(service: dict[str, Any]) -> bool:
    conditions = (service.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def a_gang(story: Story) -> None:
    labels = {"ray.io/gang-scheduling-enabled": "true"}
    await story.create(RAY_CLUSTERS, ray_cluster("gang", [group(replicas=1)], labels=labels))
    await asyncio.sleep(30)
    await story.change(RAY_CLUSTERS, "gang", {"spec": {"workerGroupSpecs": [group(replicas=2)]}})
    await asyncio.sleep(30)


async def a_gang_of_kubernetes(story: Story) -> None:
    """The finalizer is that of kube-controller-manager, which protects the group of living Pods."""
    await a_gang(story)
    protected = {"metadata": {"finalizers": [FINALIZER_POD_GROUP]}}
    await story.change(WORKLOAD_POD_GROUPS, "gang-cluster", protected)
    await story.change(RAY_CLUSTERS, "gang", {"spec": {"enableInTreeAutoscaling": True}})
    await story.cluster.until_gone(WORKLOADS, "gang")


async def a_route(story: Story) -> None:
    await story.create(RAY_CLUSTERS, ray_cluster("shown", head={"enableIngress": True}))
    await story.until_ready("shown")
    away = {"to": {"kind": "Service", "name": "elsewhere", "weight": 100}}
    await story.change(ROUTES, "shown-head-route", {"spec": away})
    await story.until(
        ROUTES, "shown-head-route", lambda one: one["spec"]["to"]["name"] == "shown-head-svc"
    )


async def a_cluster_that_trusts_nobody(story: Story) -> None:
    await story.create(RAY_CLUSTERS, ray_cluster("secret", tlsOptions={"enabled": True}))
    await story.until_ready("secret")
    await asyncio.sleep(60)


async def a_head_of_another_version(story: Story) -> None:
    [head] = await story.cluster.pods("ray.io/cluster=shown,ray.io/node-type=head", NAMESPACE)
    old = {"ray.io/kuberay-version": "v0.0.0"}
    await story.change(PODS, head["metadata"]["name"], {"metadata": {"annotations": old}})
    await story.change(RAY_CLUSTERS, "shown", {"spec": {"upgradeStrategy": {"type": "Recreate"}}})
    await asyncio.sleep(30)


async def a_mistake_that_is_made_again_and_again(story: Story) -> None:
    impossible = [group(minReplicas=5, maxReplicas=1)]
    await story.create(RAY_CLUSTERS, ray_cluster("wrong", impossible))
    for number in range(5):
        await asyncio.sleep(20)
        body = {"spec": {"rayVersion": f"2.60.{number}"}}
        await story.change(RAY_CLUSTERS, "wrong", body)


async def a_pod_that_does_not_go_away(story: Story) -> None:
    story.cluster.nodes.script("ray.io/cluster=slow", "stop=never")
    await story.create(RAY_CLUSTERS, ray_cluster("slow", [group(replicas=1)]))
    await story.until_ready("slow")
    await story.change(RAY_CLUSTERS, "slow", {"spec": {"workerGroupSpecs": [group(replicas=0)]}})
    await asyncio.sleep(150)


ACTS: tuple[Callable[[Story], Awaitable[None]], ...] = (
    a_cluster_with_everything,
    a_cluster_that_is_rolled,
    what_was_changed_by_others_is_repaired,
    a_cluster_goes_and_its_redis_is_cleaned,
    a_pod_that_does_not_go_away,
    a_cluster_with_storage_of_its_own,
    jobs_of_every_mode,
    a_timetable,
    a_service_that_is_upgraded,
    a_service_that_is_upgraded_in_steps,
    a_mistake_that_is_made_again_and_again,
)


async def _play(*acts: Callable[[Story], Awaitable[None]], **stage: Any) -> set[Used]:
    async with a_story(**stage) as story:
        for act in acts:
            await act(story)
    assert story.transport.refused == set()
    return story.transport.used


def test_every_permission_is_used_and_every_use_is_permitted() -> None:
    used: set[Used] = set()

    @virtually
    async def stories() -> None:
        used.update(await _play(*ACTS))
        used.update(await _play(a_gang, scheduler="volcano"))
        used.update(await _play(a_gang, scheduler="scheduler-plugins"))
        used.update(await _play(a_gang_of_kubernetes, was=True))
        used.update(await _play(a_cluster_that_trusts_nobody, mtls=True))
        used.update(await _play(a_route, a_head_of_another_version, openshift=True))

    stories()
    table = [*LEASE_PERMISSIONS, *PERMISSIONS]
    granted = {
        (one.group, resource, verb)
        for one in table
        if not one.held_for
        for resource in one.resources
        for verb in one.verbs
    }
    assert sorted(used - granted) == [], "used, and not granted"
    assert sorted(granted - used) == [], "granted, and never used"


def test_no_permission_lists_secrets() -> None:
    verbs = {
        verb for one in PERMISSIONS if {"secrets", "*"} & set(one.resources) for verb in one.verbs
    }
    assert verbs <= {"get", "create", "patch"}


def test_the_operator_holds_all_that_it_gives_to_autoscalers() -> None:
    """Kubernetes lets nobody grant more than they have (unless they may `escalate`: we may not)."""
    held = {
        (group_, resource, verb)
        for rule in rules(())
        for group_ in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    given = {
        (group_, resource, verb)
        for rule in autoscaler_rules()
        for group_ in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given <= held


def test_nothing_is_granted_by_wildcard_or_to_escalate() -> None:
    for one in PERMISSIONS:
        assert "*" not in {one.group, *one.resources, *one.verbs}
        assert not {"escalate", "bind", "impersonate"} & set(one.verbs)
