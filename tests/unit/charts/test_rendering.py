"""The chart as Helm renders it: linted, compared with golden files, and read by the operator itself.

`make golden` writes the golden files again; the diff is the review.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.api.crds import crd_documents
from manta.api.ray.resources import RAY_RESOURCES
from manta.cli import webhook
from manta.operator.options import Options, add_flags, options_from
from support.helm import CHART, ROOT, helm, rendered

GOLDEN = ROOT / "tests/golden/chart"
SETS = sorted(path.name.removesuffix(".values.yaml") for path in GOLDEN.glob("*.values.yaml"))
BARE = ("--set", "installCRDs=false")
Objects = dict[tuple[str, str], dict[str, Any]]


def of(values: str | Path = "", *more: str) -> Objects:
    """The objects of a set of values, by kind and name."""
    options = ("-f", GOLDEN / f"{values}.values.yaml") if isinstance(values, str) and values else ()
    found = rendered(*BARE, *options, *more)
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def deployment(objects: Objects, command: str = "operator") -> dict[str, Any]:
    """The one that runs `manta COMMAND`."""
    found = [one for (kind, _), one in objects.items() if kind == "Deployment"]
    [wanted] = [one for one in found if _container(one)["command"] == ["manta", command]]
    return wanted


def _container(workload: dict[str, Any]) -> dict[str, Any]:
    [found] = workload["spec"]["template"]["spec"]["containers"]
    return dict(found)


def container(objects: Objects, command: str = "operator") -> dict[str, Any]:
    return _container(deployment(objects, command))


def understood(objects: Objects, directory: Path, command: str = "operator") -> Options:
    """What the process itself makes of its rendered arguments, environment and file."""
    found = container(objects, command)
    arguments = list(found["args"])
    for config in (one for (_, name), one in objects.items() if name.endswith("-config")):
        file = directory / "config.yaml"
        file.write_text(config["data"]["config.yaml"])
        arguments = [one.replace("/etc/manta/config.yaml", str(file)) for one in arguments]
    parser = argparse.ArgumentParser()
    if command == "operator":
        add_flags(parser)
    else:
        webhook.add_parser(parser.add_subparsers())
        arguments = [command, *arguments]
    environment = {one["name"]: one["value"] for one in found.get("env", ())}
    return options_from(parser.parse_args(arguments), environment)


def gate(name: str, enabled: str) -> tuple[str, ...]:
    return ("--set", f"featureGates[0].name={name},featureGates[0].enabled={enabled}")


def test_the_chart_passes_helms_own_strict_lint() -> None:
    for values in SETS:
        helm("lint", "--strict", CHART, "-f", GOLDEN / f"{values}.values.yaml")


@pytest.mark.parametrize("values", SETS)
def test_golden_rendering(values: str) -> None:
    made = yaml.safe_dump_all(rendered(*BARE, "-f", GOLDEN / f"{values}.values.yaml"), width=120)
    file = GOLDEN / f"{values}.yaml"
    if os.environ.get("MANTA_GOLDEN"):
        file.write_text(made)
    assert file.read_text() == made


def test_the_crds_are_part_of_every_upgrade_and_of_no_uninstall() -> None:
    crds = [one for one in rendered() if one["kind"] == "CustomResourceDefinition"]
    kinds = {one["spec"]["names"]["kind"] for one in crds}
    assert kinds == {"RayCluster", "RayJob", "RayService", "RayCronJob"}
    kept = [one["metadata"].pop("annotations")["helm.sh/resource-policy"] for one in crds]
    assert set(kept) == {"keep"}
    assert sorted(crds, key=str) == sorted(crd_documents(), key=str)


def test_the_operator_understands_its_arguments_as_the_values_mean_them(tmp_path: Path) -> None:
    options = understood(of(), tmp_path)
    assert options.leader_election
    assert options.leader_election_namespace == "manta-system"
    assert options.settings.enable_metrics
    assert (options.qps, options.burst, options.namespaces) == (0.0, 200, ())
    assert options.warnings == ()


@pytest.mark.parametrize("by_file", [False, True])
def test_a_configuration_file_says_the_same_as_the_flags(tmp_path: Path, by_file: bool) -> None:
    values = "watchNamespaces={a,b},useKubernetesProxy=true,kubeClient.qps=7,logging.fileName=l,"
    values += f"logging.stdoutEncoder=console,configuration.enabled={str(by_file).lower()}"
    options = understood(of("", "--set", values), tmp_path)
    assert options.namespaces == ("a", "b")
    assert options.settings.use_kubernetes_proxy
    assert (options.qps, options.log_file, options.stdout_encoder) == (7, "/tmp/l", "console")
    assert options.leader_election_namespace == "manta-system"
    assert options.warnings == ()


@pytest.mark.parametrize("command", ["operator", "webhook"])
def test_a_changed_configuration_file_starts_new_pods(command: str) -> None:
    def checksum(*more: str) -> str:
        one = deployment(of("everything", *more), command)
        return str(one["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum() != checksum("--set", "configuration.defaultPodLabels.a=c")


@pytest.mark.parametrize("by_file", [False, True])
def test_the_webhook_judges_under_the_operators_settings(tmp_path: Path, by_file: bool) -> None:
    options = (
        *("--set", f"webhook.enabled=true,configuration.enabled={str(by_file).lower()}"),
        *("--set", "configuration.defaultPodLabels.a=c,batchScheduler.name=volcano"),
        *("--set-string", "env[0].name=ENABLE_LOGIN_SHELL,env[0].value=true"),
        *gate("RayClusterMTLS", "true"),
    )
    objects = of("", *options)
    settings = understood(objects, tmp_path).settings
    assert settings.gates.ray_cluster_mtls
    assert settings.login_shell
    assert settings.default_pod_labels == ({"a": "c"} if by_file else {})
    judged = understood(objects, tmp_path, "webhook").settings
    # What no rule asks for: where the operator runs, and whether it keeps metrics.
    of_no_rule: dict[str, Any] = {"operator_pods": settings.operator_pods}
    of_no_rule |= {"enable_metrics": True} if not by_file else {}
    assert dataclasses.replace(judged, **of_no_rule) == settings


def test_a_values_file_for_kuberays_chart_means_the_same_here(tmp_path: Path) -> None:
    objects = of("kuberay")
    options = understood(objects, tmp_path)
    assert options.namespaces == ("team-a", "team-b")
    assert options.settings.gates.ray_cron_job is False
    assert objects["Deployment", "kuberay-operator"]["spec"]["replicas"] == 2
    assert container(objects)["image"] == "registry.example/operator:v9"
    assert ("Role", "kuberay-operator") in objects


def test_watched_namespaces_have_roles_and_the_cluster_has_none() -> None:
    found = [
        (one["kind"], one["metadata"].get("namespace", ""))
        for one in rendered(*BARE, "--set", "watchNamespaces={a,b}")
        if one["kind"] in ("Role", "ClusterRole") and not one["metadata"]["name"].endswith("leader")
    ]
    assert found == [("Role", "a"), ("Role", "b")]


def test_a_release_for_its_own_namespace_watches_that_one(tmp_path: Path) -> None:
    objects = of("", "--set", "singleNamespaceInstall=true")
    assert understood(objects, tmp_path).namespaces == ("manta-system",)
    assert objects["Role", "manta"]["metadata"]["namespace"] == "manta-system"


def test_people_who_were_bound_to_kuberays_roles_may_keep_them() -> None:
    def roles(*more: str) -> set[str]:
        return {name for kind, name in of("", *more) if kind == "ClusterRole"}

    made = roles("--set", "userRoles=true") - roles()
    kinds = {one.kind.lower() for one in RAY_RESOURCES}
    assert made == {f"{kind}-{role}-role" for kind in kinds for role in ("editor", "viewer")}


OPENSHIFT = ("--api-versions", "route.openshift.io/v1")


@pytest.mark.parametrize(
    ("resource", "option", "without", "with_it"),
    [
        ("services/proxy", ("--set", "useKubernetesProxy=true"), False, True),
        ("routes", OPENSHIFT, False, True),
        ("podgroups", ("--set", "batchScheduler.name=volcano"), False, True),
        ("podgroups", ("--set", "batchScheduler.enabled=true"), False, True),
        ("podgroups", ("--set", "batchScheduler.name=yunikorn"), False, False),
        ("networkpolicies", gate("RayClusterNetworkPolicy", "true"), False, True),
        ("raycronjobs", gate("RayCronJob", "false"), True, False),
    ],
)
def test_permissions_are_those_of_the_features_that_are_on(
    resource: str, option: tuple[str, ...], without: bool, with_it: bool
) -> None:
    def granted(*more: str) -> bool:
        rules = of("", *more)["ClusterRole", "manta"]["rules"]
        return resource in {name for rule in rules for name in rule["resources"]}

    assert (granted(), granted(*option)) == (without, with_it)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("batchScheduler.name=vulcan", "value must be one of"),
        ("batchScheduler.enabled=true,batchScheduler.name=yunikorn", "Remove `enabled`"),
        ("replicas=2,leaderElectionEnabled=false", "needs leaderElectionEnabled"),
        ("logging.baseDir=/var/log", "logging.fileName is missing"),
        ("replicaCount=2", "additional properties 'replicaCount' not allowed"),
        ("logging.stdoutEncoder=xml", "value must be one of 'json', 'console'"),
        ("kubeClient.burst=0", "minimum: got 0, want 1"),
        ("image.digest=abc", "does not match pattern"),
        ("operatorCommand=/bin/sh", "value must be one of '', '/manager'"),
        ("image.repository=r.example/kuberay/operator", "this is the operator of KubeRay"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_before_anything_is_installed(
    value: str, complaint: str
) -> None:
    done = helm("template", "manta", CHART, "--kube-version", "1.35.0", "--set", value, check=False)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_those_who_look_for_kuberay_find_the_operator() -> None:
    """E9: `kubectl ray version` lists Deployments by name; KubeRay's own tests by component and container."""
    [deployment] = [one for one in rendered() if one["kind"] == "Deployment"]
    labels = deployment["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] in ("kuberay-operator", "kuberay")
    assert labels["app.kubernetes.io/component"] == "kuberay-operator"
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "kuberay-operator"
    assert [one["name"] for one in template["spec"]["containers"]] == ["kuberay-operator"]


def test_a_release_of_before_can_be_upgraded_because_its_selector_stays() -> None:
    for value in ("true", "false"):
        shown = rendered("--set", f"compatibility.kuberayNames={value}")
        [deployment] = [one for one in shown if one["kind"] == "Deployment"]
        assert deployment["spec"]["selector"]["matchLabels"] == {
            "app.kubernetes.io/name": "manta",
            "app.kubernetes.io/instance": "manta",
        }


def test_kuberays_names_can_be_left_out() -> None:
    shown = rendered("--set", "compatibility.kuberayNames=false")
    [deployment] = [one for one in shown if one["kind"] == "Deployment"]
    assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "manta"
    assert deployment["spec"]["template"]["spec"]["containers"][0]["name"] == "operator"
