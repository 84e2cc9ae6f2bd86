"""`manta install` and Helm make the same objects."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
import yaml

from manta.cli import install
from manta.cli.install import installation_of
from manta.install.operator_manifests import IMAGE, all_objects
from support.helm import ROOT, rendered

GOLDEN = ROOT / "tests/golden/chart/default.yaml"
ITS_OWN = ("helm.sh/chart", "app.kubernetes.io/managed-by", "helm.sh/resource-policy")
"""By which each of the two knows its work again."""
TWO_GATES = (
    "featureGates[0].name=RayCronJob,featureGates[0].enabled=false,"
    "featureGates[1].name=RayClusterNetworkPolicy,featureGates[1].enabled=true"
)
Objects = dict[tuple[str, str, str], dict[str, Any]]


def by_name(documents: list[dict[str, Any]]) -> Objects:
    """Without what tells them apart, without the namespace, for which Helm has a flag, and without
    CRDs, which are compared elsewhere."""
    found: Objects = {}
    for one in documents:
        meta = one["metadata"]
        for kind in ("labels", "annotations"):
            kept = {key: value for key, value in meta.pop(kind, {}).items() if key not in ITS_OWN}
            meta |= {kind: kept} if kept else {}
        found[one["kind"], meta.get("namespace", ""), meta["name"]] = one
    left_out = ("Namespace", "CustomResourceDefinition")
    return {key: one for key, one in found.items() if key[0] not in left_out}


def installed(*flags: str) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser()
    install.add_parser(parser.add_subparsers())
    return all_objects(installation_of(parser.parse_args(["install", *flags])))


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ((), ()),
        (("--watch-namespaces", "a,b"), ("--set", "watchNamespaces={a,b}")),
        (("--image", "r.example/m:v1"), ("--set", "image.repository=r.example/m,image.tag=v1")),
        (("--replicas", "2"), ("--set", "replicas=2")),
        (("--webhook",), ("--set", "webhook.enabled=true")),
        (
            ("--webhook", "--history-store", "s3://b/ray"),
            ("--set", "webhook.enabled=true,history.store=s3://b/ray"),
        ),
        (
            ("--webhook", "--watch-namespaces", "a,b", "--feature-gates", "RayCronJob=false"),
            (
                *("--set", "webhook.enabled=true,watchNamespaces={a,b}"),
                *("--set", "featureGates[0].name=RayCronJob,featureGates[0].enabled=false"),
            ),
        ),
        (
            ("--console", "https://ray.example"),
            (
                *("--set", "console.enabled=true,console.url=https://ray.example"),
                *("--set", "console.cookieKeySecret=manta-console-key"),
            ),
        ),
        (("--use-kubernetes-proxy",), ("--set", "useKubernetesProxy=true")),
        (
            ("--feature-gates", "RayCronJob=false,RayClusterNetworkPolicy=true"),
            ("--set", TWO_GATES),
        ),
    ],
)
def test_the_same_wishes_make_the_same_objects(
    flags: tuple[str, ...], options: tuple[str, ...]
) -> None:
    assert by_name(installed(*flags)) == by_name(rendered("--set", "installCRDs=false", *options))


def test_the_defaults_are_those_of_the_golden_rendering() -> None:
    assert by_name(installed()) == by_name(list(yaml.safe_load_all(GOLDEN.read_text())))


def test_the_default_image_is_of_this_version() -> None:
    chart = yaml.safe_load((ROOT / "charts/manta/Chart.yaml").read_text())
    assert IMAGE.rpartition(":")[2] == chart["appVersion"] == chart["version"]
