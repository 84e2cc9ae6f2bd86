"""C88: with TLS on, every container that talks to Ray has the certificates, and waits for them."""

from __future__ import annotations

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
