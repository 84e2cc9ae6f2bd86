"""Names and values of what is made for a RayCluster, where KubeRay's own count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from manta.api.ray import names
from manta.api.resources import INGRESSES, ROUTES
from manta.api.well_known import LABEL_APP_CREATED_BY, LABEL_APP_NAME
from manta.manifests.ingress import route_name
from manta.manifests.redis_cleanup import build_cleanup_job
from manta.rules.settings import FeatureGates, OperatorPods, Settings
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode

Json = dict[str, Any]
TOKEN: Json = {"authOptions": {"mode": "token"}}
BY_KUBERNETES: Json = {"authOptions": {"mode": "token", "enableK8sTokenAuth": True}}
SHOWN: Json = {"head": {"enableIngress": True}}
COLLECTOR: Json = {
    "image": "c",
    "env": [{"name": "STORAGE_BACKEND", "value": "S3"}, {"name": "S3_REGION", "value": "x"}],
}


def settled(settings: Settings | None = None, **fields: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(**fields)), settings or Settings())
    scenario.settle()
    return scenario


def values(one: Json) -> dict[str, list[Any]]:
    """Every value that an environment gives to a name: a name that is there twice has two."""
    found: dict[str, list[Any]] = {}
    for entry in one.get("env") or ():
        found.setdefault(entry["name"], []).append(entry.get("value", entry.get("valueFrom")))
    return found


def head_of(scenario: Scenario) -> Json:
    spec: Json = scenario.heads()[0]["spec"]
    return spec


# ── the Redis cleanup Job ────────────────────────────────────────────────────────────────


def test_the_cleanup_job_of_a_cluster_with_a_sidecar_submitter_is_not_held_behind_a_gate() -> None:
    """R2."""
    own = {"schedulingGates": [{"name": "example.com/mine"}]}
    pod = template()
    pod["spec"] |= own
    manifest = ray_cluster(
        head={"template": pod},
        labels={names.LABEL_JOB_SUBMISSION_MODE: "SidecarMode"},
        gcsFaultToleranceOptions={"redisAddress": "redis:6379"},
    )
    cluster = decode(manifest)
    job = build_cleanup_job(cluster, Settings())
    assert job["spec"]["template"]["spec"]["schedulingGates"] == own["schedulingGates"]
    del manifest["spec"]["headGroupSpec"]["template"]["spec"]["schedulingGates"]
    job = build_cleanup_job(decode(manifest), Settings())
    assert "schedulingGates" not in job["spec"]["template"]["spec"]


# ── the token ────────────────────────────────────────────────────────────────────────────


def test_the_lifetime_of_a_service_account_token_is_the_servers_default() -> None:
    """R4: kube-apiserver extends tokens of 3607 seconds to a year."""
    for spec in (head_of(settled(**BY_KUBERNETES)),):
        [volume] = [one for one in spec["volumes"] if one["name"] == names.VOLUME_TOKEN]
        assert volume["projected"]["sources"] == [{"serviceAccountToken": {"path": "token"}}]


def test_the_users_own_authentication_is_not_overridden() -> None:
    """R5: neither in the Ray containers nor in the autoscaler."""
    own = [
        {"name": "RAY_AUTH_MODE", "value": "k8s"},
        {"name": "RAY_AUTH_TOKEN", "value": "mine"},
    ]
    scenario = settled(
        head={"template": template(container(env=own))},
        groups=[group(template=template(container(env=own)))],
        enableInTreeAutoscaling=True,
        autoscalerOptions={"env": own},
        **TOKEN,
    )
    worker = scenario.workers()[0]["spec"]
    containers = [
        *head_of(scenario)["containers"],
        *worker["containers"],
        *worker["initContainers"],
    ]
    assert len(containers) == 4
    for one in containers:
        found = values(one)
        assert (found["RAY_AUTH_MODE"], found["RAY_AUTH_TOKEN"]) == (["k8s"], ["mine"])


@pytest.mark.parametrize("group_kind", ["head", "worker"])
def test_the_users_own_wait_container_gets_token_and_tls(group_kind: str) -> None:
    """R18."""
    pod = template()
    pod["spec"]["initContainers"] = [{"name": "wait-gcs-ready", "image": "x"}, {"name": "other"}]
    scenario = settled(
        Settings(
            gates=FeatureGates(ray_cluster_mtls=True),
            cert_manager=True,
            inject_init_container=False,
        ),
        head={"template": pod},
        groups=[group(template=pod)],
        tlsOptions={"enabled": True},
        **TOKEN,
    )
    spec = head_of(scenario) if group_kind == "head" else scenario.workers()[0]["spec"]
    inits = {one["name"]: one for one in spec["initContainers"]}
    found = values(inits["wait-gcs-ready"])
    assert (found["RAY_AUTH_MODE"], found["RAY_USE_TLS"]) == (["token"], ["1"])
    assert names.MOUNT_TLS in [one["mountPath"] for one in inits["wait-gcs-ready"]["volumeMounts"]]
    assert not values(inits["other"]).keys() & {"RAY_AUTH_MODE", "RAY_USE_TLS"}


# ── Ingress and Route ────────────────────────────────────────────────────────────────────


def test_a_long_route_name_keeps_its_front() -> None:
    """R10."""
    cluster = decode(ray_cluster(name="a" + "b" * 52))
    assert route_name(cluster) == "a" + "b" * (50 - len("default"))


def test_a_route_leads_to_the_number_of_the_dashboard_port() -> None:
    """R11: a head that declares ports may have none that is called `dashboard`."""
    ports = [{"name": "gcs-server", "containerPort": 6379}]
    head = {"enableIngress": True, "template": template(container(ports=ports))}
    scenario = settled(Settings(openshift=True), head=head)
    assert scenario.objects[ROUTES, "demo-head-route"]["spec"]["port"] == {"targetPort": 8265}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (Settings(), (INGRESSES, "demo-head-ingress")),
        (Settings(openshift=True), (ROUTES, "demo-head-route")),
    ],
)
def test_ingress_and_route_are_identified_by_their_head(settings: Settings, key: Any) -> None:
    """R12."""
    labels = settled(settings, **SHOWN).objects[key]["metadata"]["labels"]
    assert labels[names.LABEL_IDENTIFIER] == "demo-head"


# ── containers ───────────────────────────────────────────────────────────────────────────


def test_empty_autoscaler_options_undo_the_defaults() -> None:
    """R16."""
    restricted = {"runAsNonRoot": True}
    head = {"template": template(container(securityContext=restricted))}

    def sidecar(**options: Any) -> Json:
        scenario = settled(head=head, enableInTreeAutoscaling=True, autoscalerOptions=options)
        found: Json = head_of(scenario)["containers"][1]
        return found

    assert sidecar()["securityContext"] == restricted
    assert sidecar()["resources"]["limits"] == {"cpu": "500m", "memory": "512Mi"}
    undone = sidecar(resources={}, securityContext={})
    assert (undone["resources"], undone["securityContext"]) == ({}, {})


@pytest.mark.parametrize(
    ("of_cluster", "of_template", "kept"),
    [
        ("false", "true", True),
        ("true", None, True),
        ("TRUE", "false", True),
        ("false", None, False),
    ],
)
def test_the_cluster_can_only_turn_the_users_own_command_on(
    of_cluster: str, of_template: str | None, kept: bool
) -> None:
    """R17."""
    pod = template(container(command=["run"]))
    pod["metadata"] = {"annotations": {names.ANNOTATION_OVERWRITE_COMMAND: of_template}}
    if of_template is None:
        del pod["metadata"]
    scenario = settled(
        head={"template": pod}, annotations={names.ANNOTATION_OVERWRITE_COMMAND: of_cluster}
    )
    assert (head_of(scenario)["containers"][0]["command"] == ["run"]) is kept


# ── labels of what surrounds the Pods ────────────────────────────────────────────────────


def test_network_policies_name_their_group() -> None:
    """R19."""
    gates = FeatureGates(ray_cluster_network_policy=True)
    scenario = settled(Settings(gates=gates), networkPolicy={"mode": "DenyAll"})
    groups = {
        one["metadata"]["name"]: one["metadata"]["labels"][names.LABEL_GROUP]
        for one in scenario.of("NetworkPolicy")
    }
    assert groups == {"demo-head": "headgroup", "demo-workers-workers": "workers"}


@pytest.mark.parametrize(("kind", "ports"), [("RayCluster", [8265]), ("RayService", [8265, 8000])])
def test_the_operator_is_let_in_to_what_it_asks(kind: str, ports: list[int]) -> None:
    """R8."""
    here = OperatorPods("manta-system", {"app.kubernetes.io/name": "manta"})
    settings = Settings(gates=FeatureGates(ray_cluster_network_policy=True), operator_pods=here)
    closed: Json = {"networkPolicy": {"mode": "DenyAll"}, "labels": {names.LABEL_ORIGIN_KIND: kind}}

    def from_elsewhere(chosen: Settings) -> list[Json]:
        [policy] = [
            one
            for one in settled(chosen, **closed).of("NetworkPolicy")
            if one["metadata"]["name"] == "demo-head"
        ]
        found: list[Json] = policy["spec"]["ingress"][1:]
        return found

    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "manta-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "manta"}},
    }
    allowed = [{"protocol": "TCP", "port": one} for one in ports]
    assert from_elsewhere(settings) == [{"from": [peer], "ports": allowed}]
    assert from_elsewhere(replace(settings, use_kubernetes_proxy=True)) == []
    assert from_elsewhere(replace(settings, operator_pods=None)) == []


def test_objects_of_cert_manager_say_what_they_are() -> None:
    """R19."""
    gates = FeatureGates(ray_cluster_mtls=True)
    scenario = settled(Settings(gates=gates, cert_manager=True), tlsOptions={"enabled": True})
    made = [one["metadata"] for one in (*scenario.of("Issuer"), *scenario.of("Certificate"))]
    assert {one["name"]: one["labels"]["app.kubernetes.io/component"] for one in made} == {
        "ray-selfsigned-issuer-demo": "selfsigned-issuer",
        "ray-ca-issuer-demo": "ca-issuer",
        "ray-ca-certificate-demo": "ca-certificate",
        "ray-head-cert-demo": "head-certificate",
        "ray-worker-cert-demo": "worker-certificate",
    }
    for one in made:
        assert one["labels"][LABEL_APP_NAME] == "kuberay"
        assert one["labels"][LABEL_APP_CREATED_BY] == "kuberay-operator"


@pytest.mark.parametrize("owned", [True, False])
def test_the_collector_names_an_owner_only_where_there_is_one(owned: bool) -> None:
    """R19."""
    labels = {names.LABEL_ORIGIN_KIND: "RayJob", names.LABEL_ORIGIN_NAME: "job"}
    scenario = settled(
        Settings(gates=FeatureGates(ray_cluster_history_server=True)),
        labels=labels if owned else None,
        historyServerOptions={"collectorOptions": COLLECTOR},
    )
    [collector] = [one for one in head_of(scenario)["containers"] if "collector" in one["name"]]
    found = values(collector)
    wanted = (["RayJob"], ["job"]) if owned else (None, None)
    assert (found.get("OWNER_KIND"), found.get("OWNER_NAME")) == wanted
    assert collector["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("privileged", [True, False])
def test_the_autoscaler_gets_the_security_context_of_ray_unless_it_is_privileged(
    *, privileged: bool
) -> None:
    security = {"privileged": privileged, "runAsUser": 1000}
    head = {"template": template(container(securityContext=security))}
    scenario = Scenario(decode(ray_cluster(head=head, enableInTreeAutoscaling=True)))
    scenario.settle()
    [pod] = [one for one in scenario.of("Pod") if "-head-" in one["metadata"]["name"]]
    [autoscaler] = [one for one in pod["spec"]["containers"] if one["name"] == "autoscaler"]
    assert autoscaler.get("securityContext") == (None if privileged else security)


def test_the_users_init_containers_run_before_the_wait_for_the_gcs() -> None:
    body = template(container(), initContainers=[container("mine")])
    scenario = Scenario(decode(ray_cluster(groups=[group(template=body)])))
    scenario.settle()
    [worker] = scenario.workers()
    found = [one["name"] for one in worker["spec"]["initContainers"]]
    assert found == ["mine", names.CONTAINER_WAIT_GCS]
