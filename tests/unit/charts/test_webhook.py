"""The webhook in the chart: off unless asked for, and what it may do is named one by one."""

from __future__ import annotations

import argparse
from typing import Any

from manta.api.ray.resources import RAY_RESOURCES
from manta.cli.webhook import add_parser, service_names
from support.helm import rendered

Json = dict[str, Any]
ON = ("--set", "installCRDs=false", "--set", "webhook.enabled=true")
NAME = "manta-webhook"


def objects(*options: str) -> dict[str, Json]:
    """The webhook's, by kind."""
    found = rendered(*ON, *options)
    return {one["kind"]: one for one in found if one["metadata"]["name"] == NAME}


def test_there_is_none_unless_asked_for() -> None:
    found = rendered("--set", "installCRDs=false")
    assert not [one for one in found if one["metadata"]["name"].endswith("webhook")]


def test_it_may_touch_one_secret_and_one_configuration() -> None:
    found = objects()
    assert found["ClusterRole"]["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": [NAME],
            "verbs": ["get", "patch"],
        }
    ]
    made, kept = found["Role"]["rules"]
    assert made["verbs"] == ["create"]
    assert kept["resourceNames"] == [f"{NAME}-certificates"]
    assert kept["verbs"] == ["get", "update"]


def test_it_judges_all_kinds_and_holds_nobody_up() -> None:
    [hook] = objects()["ValidatingWebhookConfiguration"]["webhooks"]
    [rule] = hook["rules"]
    assert set(rule["resources"]) == {one.plural for one in RAY_RESOURCES}
    assert hook["failurePolicy"] == "Ignore"
    assert "namespaceSelector" not in hook
    [hook] = objects("--set", "watchNamespaces={a,b}")["ValidatingWebhookConfiguration"]["webhooks"]
    [where] = hook["namespaceSelector"]["matchExpressions"]
    assert where["values"] == ["a", "b"]


def test_its_pods_are_not_the_operators() -> None:
    found = rendered(*ON)
    [operator, webhook] = [one for one in found if one["kind"] == "Deployment"]
    labels = webhook["spec"]["template"]["metadata"]["labels"]
    wanted = operator["spec"]["selector"]["matchLabels"]
    assert not wanted.items() <= labels.items()
    service = objects()["Service"]["spec"]["selector"]
    assert service.items() <= labels.items()


def test_it_is_reached_by_reviews_and_reaches_the_api_server_alone() -> None:
    policy = objects("--set", "networkPolicy.enabled=true")["NetworkPolicy"]["spec"]
    workload = objects()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= workload.items()
    assert [one["port"] for rule in policy["ingress"] for one in rule["ports"]] == ["https"]
    out = {one["port"] for rule in policy["egress"] for one in rule["ports"]}
    assert out == {53, 443, 6443}
    assert "NetworkPolicy" not in objects()


def test_one_of_several_stays_while_nodes_are_drained() -> None:
    assert objects()["PodDisruptionBudget"]["spec"]["minAvailable"] == 1
    assert "PodDisruptionBudget" not in objects("--set", "webhook.replicas=1")


def test_its_flags_are_understood_and_name_what_the_chart_makes() -> None:
    found = objects("--set", "featureGates[0].name=RayCronJob,featureGates[0].enabled=false")
    [container] = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    args = parser.parse_args([*container["command"][1:], *container["args"]])
    assert (args.configuration, args.secret) == (NAME, f"{NAME}-certificates")
    assert args.feature_gates == "RayCronJob=false"
    [hook] = found["ValidatingWebhookConfiguration"]["webhooks"]
    service = hook["clientConfig"]["service"]
    shown = service_names(args.service, args.namespace)
    assert f"{service['name']}.{service['namespace']}.svc" in shown
