"""C88: with TLS on, every container that talks to Ray has the certificates, and waits for them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from manta.api.ray import names
from manta.manifests.certificates import build_certificate
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import container, ray_cluster, template
from support.raycluster_scenario import Scenario, decode

SETTINGS = Settings(gates=FeatureGates(ray_cluster_mtls=True), cert_manager=True)


def test_c88_every_injected_container_has_the_certificates() -> None:
    manifest = ray_cluster(tlsOptions={"enabled": True}, enableInTreeAutoscaling=True)
    scenario = Scenario(decode(manifest), SETTINGS)
    scenario.settle()
    head, worker = scenario.heads()[0]["spec"], scenario.workers()[0]["spec"]
    talkers = [*head["containers"], *worker["containers"]]
    talkers += [one for one in worker["initContainers"] if one["name"] == "wait-gcs-ready"]
    assert len(talkers) == 4
    for one in talkers:
        assert {"name": "RAY_USE_TLS", "value": "1"} in one["env"]
        assert "/etc/ray/tls" in [mount["mountPath"] for mount in one["volumeMounts"]]
    for spec, secret in ((head, "ray-head-secret-demo"), (worker, "ray-worker-secret-demo")):
        assert spec["initContainers"][0]["name"] == "wait-for-tls-ip-san"
        volumes = {one["name"]: one for one in spec["volumes"]}
        assert volumes["ray-tls"]["secret"]["secretName"] == secret


def test_the_wait_runs_as_ray_does() -> None:
    """Where a namespace restricts users and registries, the Pod stays as admissible as it was."""
    as_ray: dict[str, Any] = {"imagePullPolicy": "Always", "securityContext": {"runAsUser": 1000}}
    manifest = ray_cluster(
        head={"template": template(container(**as_ray))}, tlsOptions={"enabled": True}
    )
    scenario = Scenario(decode(manifest), SETTINGS)
    scenario.settle()
    wait = scenario.heads()[0]["spec"]["initContainers"][0]
    assert {name: wait.get(name) for name in as_ray} == as_ray


def _looked_for(tmp_path: Path, address: str, *named: str) -> bool:
    """Whether the wait, as it is run in a Pod of this address, finds it in such a certificate."""
    subject = ",".join(f"IP:{one}" for one in named)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-subj", "/CN=ray", "-addext", f"subjectAltName={subject}"),
            *("-keyout", str(tmp_path / "tls.key"), "-out", str(tmp_path / "tls.crt")),
        ],
        check=True,
        capture_output=True,
    )
    return _ends(tmp_path, address)


def _ends(tmp_path: Path, address: str) -> bool:
    scenario = Scenario(decode(ray_cluster(tlsOptions={"enabled": True})), SETTINGS)
    scenario.settle()
    *_, script = scenario.heads()[0]["spec"]["initContainers"][0]["command"]
    condition = script.removeprefix("until ").partition("; do")[0]
    done = subprocess.run(
        ["sh", "-c", condition.replace(names.MOUNT_TLS, str(tmp_path))],
        env={"PATH": os.environ["PATH"], "POD_IP": address},
        check=False,
    )
    return done.returncode == 0


@pytest.mark.parametrize(
    ("address", "named", "found"),
    [
        ("10.0.0.1", ["127.0.0.1", "10.0.0.1"], True),
        ("10.0.0.1", ["10.0.0.1", "127.0.0.1"], True),
        ("10.0.0.1", ["10.0.0.12", "10.0.0.1"], True),
        ("10.0.0.1", ["127.0.0.1", "10.0.0.12"], False),
        ("10.0.0.1", ["10.0.0.12", "127.0.0.1"], False),
        ("10.0.0.1", ["110.0.0.1"], False),
        ("fd00::1", ["127.0.0.1", "::1", "fd00::1"], True),
        ("fd00:10:244:1::ab", ["fd00:10:244:1::ab"], True),
        ("2001:db8::a:0:0:1", ["2001:db8:0:0:a::1"], True),
        ("FD00::AB", ["fd00::ab"], True),
        ("fd00::1", ["127.0.0.1", "::1"], False),
        ("fd00::1", ["fd00::12"], False),
        ("fd00::1", ["fd00:0:0:1::1"], False),
        ("", ["127.0.0.1", "::1"], False),
    ],
)
def test_c86_the_wait_ends_only_at_the_whole_address(
    tmp_path: Path, address: str, named: list[str], found: bool
) -> None:
    """openssl prints FD00:0:0:0:0:0:0:1 for fd00::1: on IPv6, whoever compares text waits for ever."""
    assert _looked_for(tmp_path, address, *named) is found


def test_the_wait_goes_on_without_a_certificate(tmp_path: Path) -> None:
    assert _ends(tmp_path, "10.0.0.1") is False


def test_c86_a_certificate_for_ipv6_names_its_loopback_too() -> None:
    cluster = decode(ray_cluster(tlsOptions={"enabled": True}))

    def named(*addresses: str) -> list[str]:
        built = build_certificate(cluster, "cluster.local", addresses, head=True)
        return list(built["spec"]["ipAddresses"])

    assert named("10.0.0.2") == ["127.0.0.1", "10.0.0.2"]
    assert named("fd00::2") == ["127.0.0.1", "::1", "fd00::2"]
    assert named("fd00::2", "::1") == ["127.0.0.1", "::1", "fd00::2"]
