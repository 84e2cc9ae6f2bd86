"""`manta plan` with the settings of the operator that would carry the plan out."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CONFIG_MAPS, DEPLOYMENTS, SECRETS
from manta.api.usage import UsageError
from manta.cli import plan
from manta.cli.server.operator_settings import find_origins, origin_for
from manta.install.operator_manifests import Installation, all_objects
from manta.kube.client import Client
from support.raycluster import NAMESPACE, ray_cluster
from support.rayoperator import Operated, operated
from support.virtual import virtually

KEY = Key(NAMESPACE, "demo")
CLOSED: dict[str, Any] = {"networkPolicy": {"mode": "DenyAll"}}
GATES = "RayClusterNetworkPolicy=true"


def _args(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    plan.add_parser(parser.add_subparsers(dest="verb"))
    return parser.parse_args(["plan", "--kubeconfig", "/nowhere", *words])


async def _printed(
    op: Operated,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *words: str,
) -> tuple[str, str]:
    """What `manta plan` prints about a cluster that is to be closed."""

    @asynccontextmanager
    async def opened(_: argparse.Namespace) -> AsyncIterator[Client]:
        yield op.client

    monkeypatch.setattr(plan, "open_client", opened)
    manifest = ray_cluster(**CLOSED)
    code = await plan.show(_args(*words), [("RayCluster", KEY, manifest)])
    assert (await op.client.list(RAY_CLUSTERS, NAMESPACE)).items == []
    out, err = capsys.readouterr()
    assert code == (2 if "needs the feature gate RayClusterNetworkPolicy" in out else 0)
    return out, err


async def _install(op: Operated, **wished: Any) -> None:
    installation = Installation(namespace=NAMESPACE, **wished)
    [deployment] = [one for one in all_objects(installation) if one["kind"] == "Deployment"]
    await op.client.create(DEPLOYMENTS, NAMESPACE, deployment)


@virtually
async def test_without_an_operator_the_plan_is_made_with_the_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with operated() as op:
        out, err = await _printed(op, monkeypatch, capsys)
        assert "create NetworkPolicy" not in out
        assert "no operator was found" in err


@virtually
async def test_the_gates_of_the_installed_operator_change_the_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with operated() as op:
        await _install(op, gates=GATES)
        out, err = await _printed(op, monkeypatch, capsys)
        assert "create NetworkPolicy" in out
        assert f"Deployment {NAMESPACE}/manta" in err


@virtually
async def test_an_operator_of_other_namespaces_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with operated() as op:
        await _install(op, gates=GATES, watch=("elsewhere",))
        out, _ = await _printed(op, monkeypatch, capsys)
        assert "create NetworkPolicy" not in out


@virtually
async def test_what_is_given_goes_before_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with operated() as op:
        await _install(op)
        out, _ = await _printed(op, monkeypatch, capsys, "--feature-gates", GATES)
        assert "create NetworkPolicy" in out
        config = tmp_path / "config.yaml"
        config.write_text("defaultPodLabels: {team: vision}\n")
        _, err = await _printed(op, monkeypatch, capsys, "--config", str(config))
        assert "from the flags" in err


@virtually
async def test_the_configuration_of_the_installed_operator_is_read() -> None:
    async with operated() as op:
        [deployment] = [one for one in all_objects(Installation()) if one["kind"] == "Deployment"]
        pod = deployment["spec"]["template"]["spec"]
        [container] = pod["containers"]
        container["args"] = ["--config=/etc/manta/config.yaml"]
        container["volumeMounts"].append({"name": "config", "mountPath": "/etc/manta"})
        pod["volumes"].append({"name": "config", "configMap": {"name": "manta-config"}})
        deployment["metadata"]["namespace"] = NAMESPACE
        await op.client.create(DEPLOYMENTS, NAMESPACE, deployment)
        with pytest.raises(UsageError, match="give that file with --config"):
            origin_for(await find_origins(_args(), op.client), NAMESPACE)
        meta = {"name": "manta-config", "namespace": NAMESPACE}
        data = {"config.yaml": "defaultPodLabels: {team: vision}\n"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        await op.client.create(CONFIG_MAPS, NAMESPACE, body)
        first = origin_for(await find_origins(_args(), op.client), NAMESPACE)
        assert first.options.settings.default_pod_labels == {"team": "vision"}


@virtually
async def test_the_environment_is_read_where_the_deployment_says_that_it_is() -> None:
    async with operated() as op:
        [deployment] = [one for one in all_objects(Installation()) if one["kind"] == "Deployment"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        container["envFrom"] = [{"configMapRef": {"name": "all"}, "prefix": "ENABLE_"}]
        domain = {"configMapKeyRef": {"name": "some", "key": "domain"}}
        grace = {"secretKeyRef": {"name": "hidden", "key": "seconds"}}
        container["env"] = [
            {"name": "CLUSTER_DOMAIN", "valueFrom": domain},
            {"name": "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV", "valueFrom": grace},
            {"name": "ENABLE_PROBES_INJECTION", "value": "true"},
        ]
        deployment["metadata"]["namespace"] = NAMESPACE
        await op.client.create(DEPLOYMENTS, NAMESPACE, deployment)

        async def put(resource: Any, name: str, **body: Any) -> None:
            meta = {"name": name, "namespace": NAMESPACE}
            await op.client.create(resource, NAMESPACE, {"metadata": meta, **body})

        found = origin_for(await find_origins(_args(), op.client), NAMESPACE)
        unread = "ConfigMap all, CLUSTER_DOMAIN, RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV"
        assert f"without {unread}, which cannot be read" in found.what

        await put(CONFIG_MAPS, "all", data={"LOGIN_SHELL": "true", "PROBES_INJECTION": "false"})
        await put(CONFIG_MAPS, "some", data={"domain": "example.test"})
        await put(SECRETS, "hidden", stringData={"seconds": "77"})
        found = origin_for(await find_origins(_args(), op.client), NAMESPACE)
        settings = found.options.settings
        assert found.what == f"Deployment {NAMESPACE}/manta"
        assert settings.login_shell
        assert settings.inject_probes  # `env` goes before `envFrom`
        assert settings.cluster_domain == "example.test"
        assert settings.cluster_resync.total_seconds() == 77
