"""An older CRD hides fields of live RayClusters from us: that alone costs no Pod.

A server that gets an older definition prunes on reading: the same object, of the same generation and
the same resourceVersion, is suddenly without the fields that the older one does not know. Nobody edited
it. Which fields each of KubeRay's releases added is read off its own types.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray.cluster import RayClusterSpec
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from manta.controllers.raycluster.events import Cause
from manta.kube.errors import Forbidden
from manta.reconcile.actions import Action, Delete
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode

Json = dict[str, Any]

EVERYTHING = Settings(
    gates=FeatureGates(
        ray_cluster_network_policy=True,
        gcs_fault_tolerance_embedded_storage=True,
        ray_cluster_mtls=True,
        ray_cluster_history_server=True,
    ),
    cert_manager=True,
)
ADDED = {
    "1.1": ("suspend",),  # and workerGroupSpecs.numOfHosts
    "1.3": (
        "gcsFaultToleranceOptions",
        "managedBy",
        "workerGroupSpecs.idleTimeoutSeconds",
        "workerGroupSpecs.suspend",
    ),
    "1.4": ("autoscalerOptions.version",),
    "1.5": (
        "authOptions",
        "headGroupSpec.labels",
        "headGroupSpec.resources",
        "workerGroupSpecs.labels",
        "workerGroupSpecs.resources",
    ),
    "1.6": ("authOptions.enableK8sTokenAuth", "authOptions.secretName", "upgradeStrategy"),
    "1.7": (
        "autoscalerOptions.args",
        "autoscalerOptions.command",
        "gcsFaultToleranceOptions.backend",
        "gcsFaultToleranceOptions.storage",
        "headGroupSpec.ingressOptions",
        "historyServerOptions",
        "networkPolicy",
        "tlsOptions",
        "workerGroupSpecs.priority",
    ),
}
"""The fields of a RayCluster's spec by the release of KubeRay that brought them."""
OF_THE_TEMPLATE = (
    "headGroupSpec.template.metadata",
    "headGroupSpec.template.spec.schedulingGates",
    "headGroupSpec.template.spec.hostUsers",
    "headGroupSpec.template.spec.containers.resizePolicy",
    "workerGroupSpecs.template.metadata",
    "workerGroupSpecs.template.spec.hostUsers",
    "workerGroupSpecs.template.spec.containers.resizePolicy",
)
"""What newer releases of Kubernetes brought to Pods: a definition holds a copy of their schema."""
FIELDS = (*OF_THE_TEMPLATE, *(path for paths in ADDED.values() for path in paths))
REDIS = {
    "redisAddress": "redis:6379",
    "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}},
    "externalStorageNamespace": "mine",
}
HISTORY = {
    "collectorOptions": {
        "image": "collector:1",
        "env": [
            {"name": "STORAGE_BACKEND", "value": "S3"},
            {"name": "S3_REGION", "value": "x"},
        ],
    }
}


def _template() -> Json:
    resize = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    body = template(container(resizePolicy=resize), hostUsers=False)
    return {"metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}}, **body}


def _cluster(groups: list[Json], **spec: Any) -> Json:
    """Every field that a release may not know, as far as they go together."""
    return ray_cluster(
        groups=groups,
        head={
            "template": _template(),
            "labels": {"zone": "a"},
            "resources": {"CPU": "1"},
            "enableIngress": True,
            "ingressOptions": {"host": "ray.example.com", "path": "/x"},
        },
        **{
            "authOptions": {"mode": "token", "secretName": "own"},
            "gcsFaultToleranceOptions": REDIS,
            "managedBy": "ray.io/kuberay-operator",
            "networkPolicy": {"mode": "DenyAllIngress"},
            "tlsOptions": {"enabled": True},
            "historyServerOptions": HISTORY,
            "suspend": False,
            **spec,
        },
    )


def _group(name: str, **fields: Any) -> Json:
    shape = {"labels": {"zone": "b"}, "resources": {"CPU": "2"}, "template": _template()}
    return group(name, replicas=2, **shape, **fields)


FIXED = _cluster([_group("a"), _group("b")])
SUSPENDED_GROUP = _cluster([_group("a"), _group("b", suspend=True)])
AUTOSCALED = _cluster(
    [_group("a", idleTimeoutSeconds=60, priority=3)],
    enableInTreeAutoscaling=True,
    autoscalerOptions={"version": "v2", "command": ["sh"], "args": ["-c", "x"]},
)
DELEGATED = _cluster([_group("a")], authOptions={"mode": "token", "enableK8sTokenAuth": True})
EMBEDDED = _cluster(
    [_group("a")],
    gcsFaultToleranceOptions={"backend": "rocksdb", "storage": {"size": "2Gi", "subPath": "gcs"}},
)
KINDS = {
    "fixed": FIXED,
    "suspended-group": SUSPENDED_GROUP,
    "autoscaled": AUTOSCALED,
    "delegated": DELEGATED,
    "embedded": EMBEDDED,
}
of_every_kind = pytest.mark.parametrize("kind", KINDS)


def without(manifest: Json, *paths: str) -> Json:
    body = copy.deepcopy(manifest)
    for path in paths:
        _drop(body["spec"], path.split("."))
    return body


def _drop(value: Any, keys: list[str]) -> None:
    if isinstance(value, list):
        for one in value:
            _drop(one, keys)
    elif len(keys) > 1:
        _drop(value.get(keys[0], {}), keys[1:])
    else:
        value.pop(keys[0], None)


def settled(manifest: Json, settings: Settings = EVERYTHING) -> Scenario:
    scenario = Scenario(decode(manifest), settings)
    assert not scenario.snapshot().violations
    scenario.settle()
    return scenario


def look_at(scenario: Scenario, manifest: Json) -> Scenario:
    """The server tells the same object by other fields: no edit, no new generation."""
    spec = msgspec.convert(manifest["spec"], RayClusterSpec)
    scenario.cluster = msgspec.structs.replace(scenario.cluster, spec=spec)
    return scenario


def lost(scenario: Scenario) -> list[Action]:
    """The Pods, and the claims, that go within a few rounds."""
    before = len(scenario.log)
    for _ in range(4):
        scenario.reconcile()
        scenario.remove_deleted()
        scenario.run_pods()
        scenario.issue_certificates()
    kept = (PODS, PERSISTENT_VOLUME_CLAIMS)
    return [
        one for one in scenario.log[before:] if isinstance(one, Delete) and one.resource in kept
    ]


def releases_before(release: str) -> tuple[str, ...]:
    """The fields that the definition of the release before this one does not know."""
    order = list(ADDED)
    return tuple(path for one in order[order.index(release) :] for path in ADDED[one])


@of_every_kind
@pytest.mark.parametrize("path", FIELDS)
def test_a_field_that_is_no_longer_reported_costs_no_pod(path: str, kind: str) -> None:
    scenario = settled(KINDS[kind])
    alive = {name: pod["metadata"]["uid"] for name, pod in scenario.pods.items()}
    look_at(scenario, without(KINDS[kind], path))
    assert lost(scenario) == []
    now = {name: pod["metadata"]["uid"] for name, pod in scenario.pods.items()}
    assert alive.items() <= now.items()


@of_every_kind
@pytest.mark.parametrize("release", ADDED)
def test_under_the_definition_of_an_older_release_no_pod_is_lost(release: str, kind: str) -> None:
    scenario = settled(KINDS[kind])
    look_at(scenario, without(KINDS[kind], *OF_THE_TEMPLATE, *releases_before(release)))
    assert lost(scenario) == []


@of_every_kind
def test_when_the_newer_definition_is_back_nothing_was_lost_either(kind: str) -> None:
    scenario = settled(KINDS[kind])
    look_at(scenario, without(KINDS[kind], *OF_THE_TEMPLATE, *releases_before("1.3")))
    assert lost(scenario) == []
    look_at(scenario, KINDS[kind])
    going = [one.key.name.rpartition("-")[0] for one in lost(scenario)]
    # A group that was suspended grew while nobody knew that it was: those Pods alone go again.
    assert going == (["demo-b-worker"] * 2 if kind == "suspended-group" else [])


@pytest.mark.parametrize("release", ["1.1", "1.3", "1.4", "1.5", "1.6"])
def test_who_is_to_recreate_loses_nothing_where_the_strategy_is_not_known(release: str) -> None:
    """Before 1.6 no definition knew `upgradeStrategy`: it goes with the fields that it watches."""
    manifest = _cluster([_group("a")], upgradeStrategy={"type": "Recreate"})
    scenario = settled(manifest)
    look_at(scenario, without(manifest, *OF_THE_TEMPLATE, *releases_before(release)))
    assert lost(scenario) == []


def test_an_operator_that_goes_back_together_with_its_definition_replaces_no_pod() -> None:
    manifest = _cluster([_group("a")], upgradeStrategy={"type": "Recreate"})
    scenario = settled(manifest)
    look_at(scenario, without(manifest, *releases_before("1.7")))
    scenario.settings = replace(EVERYTHING, version="manta-v0.0.1")
    assert Cause.OPERATOR_CHANGED in {one.cause for one in scenario.plan().actions}
    assert lost(scenario) == []


def test_the_same_fields_removed_by_an_edit_do_recreate_the_pods() -> None:
    """So that the tests above could fail: with a new generation it is the user's word."""
    manifest = _cluster([_group("a")], upgradeStrategy={"type": "Recreate"})
    scenario = settled(manifest)
    scenario.set_spec(without(manifest, *releases_before("1.7")))
    assert {one.cause for one in lost(scenario)} == {Cause.SPEC_CHANGED}


@pytest.mark.parametrize(
    "path",
    [
        *OF_THE_TEMPLATE,
        *(one for paths in ADDED.values() for one in paths if one != "upgradeStrategy"),
    ],
)
def test_who_is_to_recreate_loses_nothing_to_a_field_that_is_hidden(path: str) -> None:
    manifest = _cluster([_group("a")], upgradeStrategy={"type": "Recreate"})
    scenario = look_at(settled(manifest), without(manifest, path))
    assert lost(scenario) == []


def test_an_edit_whose_deletions_fail_at_first_recreates_the_pods_all_the_same() -> None:
    """The generation must not count as observed before the old Pods are gone."""
    manifest = _cluster([_group("a")], upgradeStrategy={"type": "Recreate"})
    scenario = settled(manifest)
    before = {one["metadata"]["uid"] for one in scenario.of("Pod")}
    scenario.set_spec(without(manifest, "networkPolicy"))
    for _ in range(3):
        scenario.reconcile(
            lambda one: Forbidden(403, "Forbidden", "no") if isinstance(one, Delete) else None
        )
    scenario.settle(20)
    assert before.isdisjoint(one["metadata"]["uid"] for one in scenario.of("Pod"))


def test_a_generation_is_remembered_where_edits_are_reported_by_it() -> None:
    manifest = _cluster([_group("a")], upgradeStrategy={"type": "Recreate"})
    scenario = settled(manifest)
    scenario.set_spec(manifest)  # an edit that changes nothing that the status tells
    scenario.settle()
    assert scenario.cluster.status.observed_generation == scenario.cluster.metadata.generation


def several_hosts() -> Json:
    return ray_cluster(groups=[group(replicas=2, numOfHosts=4)])


def test_hosts_that_are_hidden_stay() -> None:
    scenario = settled(several_hosts())
    scenario = look_at(scenario, without(several_hosts(), "workerGroupSpecs.numOfHosts"))
    assert lost(scenario) == []
    assert scenario.plan().notes


def test_hosts_that_an_edit_took_go_also_where_their_deletion_fails_at_first() -> None:
    scenario = settled(several_hosts())
    scenario.set_spec(without(several_hosts(), "workerGroupSpecs.numOfHosts"))
    for _ in range(3):
        scenario.reconcile(
            lambda one: Forbidden(403, "Forbidden", "no") if isinstance(one, Delete) else None
        )
    scenario.settle(20)
    assert len(scenario.workers()) == 2
    assert scenario.cluster.status.observed_generation == scenario.cluster.metadata.generation


def test_policies_that_are_hidden_keep_the_cluster_closed_until_an_edit_opens_it() -> None:
    manifest = _cluster([_group("a")])
    scenario = settled(manifest)
    closed = len(scenario.of("NetworkPolicy"))
    assert closed
    scenario = look_at(scenario, without(manifest, "networkPolicy"))
    scenario.settle()
    assert len(scenario.of("NetworkPolicy")) == closed
    scenario.set_spec(without(manifest, "networkPolicy"))
    scenario.reconcile(
        lambda one: Forbidden(403, "Forbidden", "no") if isinstance(one, Delete) else None
    )
    scenario.settle()
    assert scenario.of("NetworkPolicy") == []


def test_a_claim_is_kept_when_nobody_knows_any_more_that_it_is_used() -> None:
    scenario = settled(EMBEDDED)
    [before] = scenario.of("PersistentVolumeClaim")
    look_at(scenario, without(EMBEDDED, *releases_before("1.7")))
    assert lost(scenario) == []
    [after] = scenario.of("PersistentVolumeClaim")
    assert after["metadata"] == before["metadata"]


def test_conditions_that_an_old_definition_does_not_keep_cost_no_pod() -> None:
    scenario = settled(FIXED)
    bare = msgspec.structs.replace(scenario.cluster.status, conditions=())
    scenario.cluster = msgspec.structs.replace(scenario.cluster, status=bare)
    assert lost(scenario) == []
