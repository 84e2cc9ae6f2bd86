"""What runs goes before what the spec says: an edit of the head's template moves nothing that leads
to a running head (R1)."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.ray import names
from manta.api.resources import INGRESSES, NETWORK_POLICIES, PODS, ROUTES, SERVICES
from manta.api.well_known import LABEL_APP_NAME
from manta.controllers.raycluster.events import Cause
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode

Json = dict[str, Any]
PORTS = (("gcs-server", 6379), ("dashboard", 8265), ("serve", 8000), ("extra", 9000))
SERVE = {"ray.io/enable-serve-service": "true"}
JOB = {
    names.LABEL_ORIGIN_KIND: "RayJob",
    names.LABEL_ORIGIN_NAME: "job",
    names.LABEL_JOB_SUBMISSION_MODE: "K8sJobMode",
}


def manifest(*ports: tuple[str, int], pod_labels: Json | None = None, **fields: Any) -> Json:
    declared = [{"name": name, "containerPort": number} for name, number in ports or PORTS]
    pod = template(container(ports=declared))
    if pod_labels:
        pod["metadata"] = {"labels": pod_labels}
    head = {"template": pod, "enableIngress": True}
    return ray_cluster(head=head, annotations=SERVE, **fields)


def settled(settings: Settings | None = None, **fields: Any) -> Scenario:
    scenario = Scenario(decode(manifest(**fields)), settings or Settings())
    scenario.settle()
    return scenario


def selects_its_head(scenario: Scenario) -> bool:
    [head] = scenario.heads()
    selector = scenario.objects[SERVICES, "demo-head-svc"]["spec"]["selector"]
    return selector.items() <= head["metadata"]["labels"].items()


def ports_of(scenario: Scenario, service: str = "demo-head-svc") -> dict[str, int]:
    ports = scenario.objects[SERVICES, service]["spec"]["ports"]
    return {one["name"]: one["port"] for one in ports}


def replace_head(scenario: Scenario) -> None:
    [head] = scenario.heads()
    del scenario.objects[PODS, head["metadata"]["name"]]
    scenario.settle()


def test_the_head_service_selects_the_running_head_after_its_template_got_another_label() -> None:
    scenario = settled()
    scenario.set_spec(manifest(pod_labels={LABEL_APP_NAME: "mine", names.LABEL_IDENTIFIER: "x"}))
    scenario.settle()
    assert selects_its_head(scenario)
    replace_head(scenario)
    assert selects_its_head(scenario)
    selector = scenario.objects[SERVICES, "demo-head-svc"]["spec"]["selector"]
    assert (selector[LABEL_APP_NAME], selector[names.LABEL_IDENTIFIER]) == ("mine", "x")


def test_edited_ports_are_served_when_a_head_made_from_the_edit_is_there() -> None:
    scenario = settled()
    scenario.set_spec(manifest(("dashboard", 9265), ("gcs-server", 6380), ("serve", 8001)))
    scenario.settle()
    kept = {"dashboard": 8265, "gcs-server": 6379, "serve": 8000, "extra": 9000, "metrics": 8080}
    assert ports_of(scenario) == kept
    assert ports_of(scenario, "demo-serve-svc") == {"serve": 8000}
    assert scenario.cluster.status.endpoints["dashboard"] == "8265"
    replace_head(scenario)
    moved = {"dashboard": 9265, "gcs-server": 6380, "serve": 8001, "metrics": 8080}
    assert ports_of(scenario) == moved
    assert ports_of(scenario, "demo-serve-svc") == {"serve": 8001}
    assert scenario.cluster.status.endpoints["dashboard"] == "9265"


def test_a_port_that_the_spec_adds_is_served_at_once() -> None:
    scenario = settled()
    scenario.set_spec(manifest(*PORTS, ("jupyter", 8888)))
    scenario.settle()
    assert ports_of(scenario)["jupyter"] == 8888


def test_a_head_that_declares_no_port_keeps_rays_own() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    scenario.set_spec(manifest(("dashboard", 9265)))
    scenario.settle()
    assert ports_of(scenario)["dashboard"] == 8265


@pytest.mark.parametrize("openshift", [False, True])
def test_the_way_to_the_dashboard_leads_to_where_the_running_head_listens(openshift: bool) -> None:
    def target(scenario: Scenario) -> Any:
        if openshift:
            return scenario.objects[ROUTES, "demo-head-route"]["spec"]["port"]["targetPort"]
        [rule] = scenario.objects[INGRESSES, "demo-head-ingress"]["spec"]["rules"]
        return rule["http"]["paths"][0]["backend"]["service"]["port"]["number"]

    scenario = settled(Settings(openshift=openshift))
    scenario.set_spec(manifest(("dashboard", 9265)))
    scenario.settle()
    assert target(scenario) == 8265
    replace_head(scenario)
    assert target(scenario) == 9265


def test_the_submitter_may_reach_the_dashboard_of_the_running_head() -> None:
    def port(scenario: Scenario) -> int:
        ingress = scenario.objects[NETWORK_POLICIES, "demo-head"]["spec"]["ingress"]
        found: int = next(one for one in ingress if "ports" in one)["ports"][0]["port"]
        return found

    settings = Settings(gates=FeatureGates(ray_cluster_network_policy=True))
    closed: Json = {"networkPolicy": {"mode": "DenyAll"}, "labels": JOB}
    scenario = settled(settings, **closed)
    scenario.set_spec(manifest(("dashboard", 9265), **closed))
    scenario.settle()
    assert port(scenario) == 8265
    replace_head(scenario)
    assert port(scenario) == 9265


def test_a_head_that_is_being_deleted_is_still_reached() -> None:
    scenario = settled()
    [head] = scenario.heads()
    head["metadata"]["deletionTimestamp"] = "2026-11-15T09:00:00Z"
    scenario.set_spec(manifest(("dashboard", 9265), pod_labels={LABEL_APP_NAME: "mine"}))
    assert Cause.SERVICE_DRIFT not in [one.cause for one in scenario.plan().actions]


def test_the_ports_of_a_sidecar_that_was_injected_first_are_not_those_of_the_head() -> None:
    """Istio with `holdApplicationUntilProxyStarts` puts its container before all others."""
    scenario = settled()
    before = ports_of(scenario)
    [head] = scenario.heads()
    proxy = {"name": "istio-proxy", "ports": [{"name": "http-envoy-prom", "containerPort": 15090}]}
    head["spec"]["containers"].insert(0, proxy)
    scenario.settle()
    assert ports_of(scenario) == before
    scenario.set_spec(manifest(("dashboard", 9265), ("gcs-server", 6380), ("serve", 8001)))
    scenario.settle()
    assert ports_of(scenario) == before


TOKEN: Json = {"authOptions": {"mode": "token"}}


def spec_of(*, port: int = 6379, workers: int = 1, **fields: Any) -> Json:
    head = {"rayStartParams": {"port": str(port)}}
    return ray_cluster(head=head, groups=[group(replicas=workers)], **fields)


def added_worker(scenario: Scenario, edited: Json) -> Json:
    """The second worker, which is created after the edit."""
    before = scenario.pods.keys()
    scenario.set_spec(edited)
    scenario.settle()
    [name] = scenario.pods.keys() - before
    worker: Json = scenario.pods[name]
    return worker


def env_of(pod: Json) -> dict[str, Any]:
    [ray] = pod["spec"]["containers"]
    return {one["name"]: one.get("value") for one in ray["env"]}


def test_new_workers_join_the_running_head_at_its_port() -> None:
    scenario = Scenario(decode(spec_of()))
    scenario.settle()
    worker = added_worker(scenario, spec_of(port=6380, workers=2))
    assert env_of(worker)["RAY_ADDRESS"].endswith(":6379")
    assert "6380" not in str(worker["spec"])
    replace_head(scenario)
    del scenario.objects[PODS, worker["metadata"]["name"]]
    worker = added_worker(scenario, spec_of(port=6380, workers=2))
    assert env_of(worker)["RAY_ADDRESS"].endswith(":6380")


@pytest.mark.parametrize(("before", "after"), [(TOKEN, {}), ({}, TOKEN)])
def test_new_workers_show_the_running_head_the_token_that_it_knows(
    before: Json, after: Json
) -> None:
    scenario = Scenario(decode(spec_of(**before)))
    scenario.settle()
    worker = added_worker(scenario, spec_of(workers=2, **after))
    assert ("RAY_AUTH_TOKEN" in env_of(worker)) is (before is TOKEN)
    replace_head(scenario)
    worker = added_worker(scenario, spec_of(workers=3, **after))
    assert ("RAY_AUTH_TOKEN" in env_of(worker)) is (after is TOKEN)
