"""C88: with TLS on, every container that talks to Ray has the certificates, and waits for them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from manta.api.ray import names
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import ray_cluster
from support.raycluster_world import World, decode

SETTINGS = Settings(gates=FeatureGates(ray_cluster_mtls=True), cert_manager=True)


def test_c88_every_injected_container_has_the_certificates() -> None:
    manifest = ray_cluster(tlsOptions={"enabled": True}, enableInTreeAutoscaling=True)
    world = World(decode(manifest), SETTINGS)
    world.settle()
    head, worker = world.heads()[0]["spec"], world.workers()[0]["spec"]
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


def _looked_for(tmp_path: Path, address: str, *named: str) -> bool:
    """Whether the wait, as it is run in a Pod of this address, finds it in such a certificate."""
    world = World(decode(ray_cluster(tlsOptions={"enabled": True})), SETTINGS)
    world.settle()
    *_, script = world.heads()[0]["spec"]["initContainers"][0]["command"]
    condition = script.removeprefix("until ").partition("; do")[0]
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
    done = subprocess.run(
        ["sh", "-c", condition.replace(names.MOUNT_TLS, str(tmp_path))],
        env={"PATH": os.environ["PATH"], "POD_IP": address},
        check=False,
    )
    return done.returncode == 0


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (["127.0.0.1", "10.0.0.1"], True),
        (["10.0.0.1", "127.0.0.1"], True),
        (["10.0.0.12", "10.0.0.1"], True),
        (["127.0.0.1", "10.0.0.12"], False),
        (["10.0.0.12", "127.0.0.1"], False),
        (["110.0.0.1"], False),
    ],
)
def test_the_wait_ends_only_at_the_whole_address(
    tmp_path: Path, named: list[str], found: bool
) -> None:
    assert _looked_for(tmp_path, "10.0.0.1", *named) is found
