"""The activator in the chart: off unless asked for, with few rights, and with what it needs."""

from __future__ import annotations

from typing import Any

from manta.cli.main import parse
from support.helm import rendered

Json = dict[str, Any]


def objects(*values: str) -> list[Json]:
    options = ["--set", "installCRDs=false", *(part for one in values for part in ("--set", one))]
    return rendered(*options)


def ours() -> dict[str, Json]:
    found = objects("activator.enabled=true")
    return {one["kind"]: one for one in found if one["metadata"]["name"] == "manta-activator"}


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    assert "activator" not in str(objects())


def test_it_may_resume_clusters_and_lead_their_traffic_and_nothing_else() -> None:
    rules = ours()["ClusterRole"]["rules"]
    assert {one["resources"][0]: one["verbs"] for one in rules} == {
        "rayclusters": ["get", "list", "watch", "patch"],
        "services": ["get"],
        "endpointslices": ["list", "create", "delete"],
        "clusterroles": ["get"],
    }
    assert rules[-1]["resourceNames"] == ["manta-activator"]


def test_its_pod_knows_its_address_and_runs_a_command_that_exists() -> None:
    [container] = ours()["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    command = parse(container["command"][1:])
    assert (command.verb, command.owner) == ("activator", ours()["ClusterRole"]["metadata"]["name"])


def test_head_services_get_an_address_of_their_own_with_it() -> None:
    def variables(*values: str) -> dict[str, str]:
        [operator] = [
            one["spec"]["template"]["spec"]["containers"][0]
            for one in objects(*values)
            if one["kind"] == "Deployment" and one["metadata"]["name"] != "manta-activator"
        ]
        return {one["name"]: one.get("value", "") for one in operator.get("env") or ()}

    name = "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE"
    assert variables("activator.enabled=true")[name] == "true"
    assert name not in variables()


def test_the_default_limit_of_idleness_reaches_the_operator() -> None:
    text = str(objects("idleSuspend=30m@dev"))
    assert "--idle-suspend=30m@dev" in text
    assert 'idleSuspend: "30m@dev"' in str(
        objects("idleSuspend=30m@dev", "configuration.enabled=true")
    )
