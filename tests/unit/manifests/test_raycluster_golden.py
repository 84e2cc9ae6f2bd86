"""Every object that is made for a RayCluster, as text: one golden file for each branch.

`MANTA_GOLDEN=1 pytest tests/unit/manifests` writes them again; the diff is the review.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from manta.api.times import format_time
from manta.reconcile.actions import Create
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode

GOLDEN = Path(__file__).parents[2] / "golden" / "raycluster"

ALL_GATES = FeatureGates(
    ray_cluster_network_policy=True,
    gcs_fault_tolerance_embedded_storage=True,
    ray_cluster_mtls=True,
    ray_cluster_history_server=True,
)
DEFAULT = Settings(version="manta-golden")
EVERYTHING = replace(DEFAULT, gates=ALL_GATES, cert_manager=True)

REDIS = {
    "redisAddress": "redis:6379",
    "redisUsername": {"value": "ray"},
    "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}},
}
PORTS = [{"name": "gcs-server", "containerPort": 6379}, {"containerPort": 9000}]


def _of_service(**spec: Any) -> dict[str, Any]:
    origin = {"ray.io/originated-from-crd": "RayService", "ray.io/originated-from-cr-name": "s"}
    return ray_cluster(labels=origin, **spec)


def _limited(limits: dict[str, str]) -> dict[str, Any]:
    return template(container(resources={"limits": limits}))


CASES: dict[str, tuple[dict[str, Any], Settings]] = {
    "plain": (ray_cluster(groups=[group(replicas=2)]), DEFAULT),
    "head-only": (ray_cluster(groups=[]), DEFAULT),
    "exec-probes": (ray_cluster(rayVersion="2.52.0"), DEFAULT),
    "probes-off": (ray_cluster(), replace(DEFAULT, inject_probes=False)),
    "own-probes": (
        ray_cluster(
            head={"template": template(container(livenessProbe={"tcpSocket": {"port": 1}}))}
        ),
        DEFAULT,
    ),
    "init-container-off": (ray_cluster(), replace(DEFAULT, inject_init_container=False)),
    "login-shell": (ray_cluster(), replace(DEFAULT, login_shell=True)),
    "fixed-head-name": (ray_cluster(), replace(DEFAULT, deterministic_head_pod_name=True)),
    "cluster-domain": (ray_cluster(), replace(DEFAULT, cluster_domain="app.pre")),
    "user-command": (
        ray_cluster(head={"template": template(container(command=["echo"], args=["hello"]))}),
        DEFAULT,
    ),
    "overwritten-command": (
        ray_cluster(
            head={
                "template": template(
                    container(command=["bash", "-c", "$KUBERAY_GEN_RAY_START_CMD"])
                )
            },
            annotations={"ray.io/overwrite-container-cmd": "true"},
        ),
        DEFAULT,
    ),
    "user-starts-ray": (
        ray_cluster(head={"template": template(container(args=["ray start --head --block"]))}),
        DEFAULT,
    ),
    "group-resources-and-labels": (
        ray_cluster(
            head={"resources": {"CPU": "0"}, "labels": {"zone": "a"}},
            groups=[
                group(
                    resources={"CPU": "2", "memory": "1Gi", "GPU": "1", "magic": "500m"},
                    labels={"zone": "b"},
                )
            ],
        ),
        DEFAULT,
    ),
    "accelerators": (
        ray_cluster(
            groups=[
                group(
                    "gpu",
                    template=template(container(resources={"limits": {"nvidia.com/gpu": "2"}})),
                ),
                group(
                    "mig",
                    template=template(
                        container(resources={"limits": {"nvidia.com/mig-1g.5gb": 1}})
                    ),
                ),
                group(
                    "tpu",
                    template=template(container(resources={"limits": {"google.com/tpu": "4"}})),
                ),
            ]
        ),
        DEFAULT,
    ),
    "neuron": (
        ray_cluster(
            groups=[
                group("cores", template=_limited({"aws.amazon.com/neuroncore": "2"})),
                # Whole devices are not what Ray counts by: KubeRay passes on cores only.
                group("devices", template=_limited({"aws.amazon.com/neuron": "1"})),
                group(
                    "besides",
                    rayStartParams={"resources": "'{\"Custom\": 1}'"},
                    template=_limited({"aws.amazon.com/neuroncore": "4"}),
                ),
                group(
                    "counted",
                    rayStartParams={"resources": "'{\"neuron_cores\": 1}'"},
                    template=_limited({"aws.amazon.com/neuroncore": "4"}),
                ),
                group(
                    "both",
                    template=_limited({"google.com/tpu": "4", "aws.amazon.com/neuroncore": "2"}),
                ),
            ]
        ),
        DEFAULT,
    ),
    "own-shared-memory": (
        ray_cluster(
            head={
                "template": template(
                    container(volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}]),
                    volumes=[{"name": "shm", "emptyDir": {}}],
                )
            },
            groups=[group(rayStartParams={"plasma-directory": "/plasma"})],
        ),
        DEFAULT,
    ),
    "autoscaler": (ray_cluster(enableInTreeAutoscaling=True), DEFAULT),
    "autoscaler-v1": (
        ray_cluster(enableInTreeAutoscaling=True, autoscalerOptions={"version": "v1"}),
        DEFAULT,
    ),
    "autoscaler-v2": (
        ray_cluster(
            enableInTreeAutoscaling=True,
            autoscalerOptions={
                "version": "v2",
                "image": "own:1",
                "imagePullPolicy": "Always",
                "resources": {"limits": {"cpu": "1"}},
                "env": [{"name": "A", "value": "b"}],
                "envFrom": [{"configMapRef": {"name": "c"}}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "securityContext": {"runAsUser": 1},
                "command": ["sh"],
                "args": ["-c", "x"],
                "idleTimeoutSeconds": 60,
            },
        ),
        DEFAULT,
    ),
    "restricted-security": (
        ray_cluster(
            enableInTreeAutoscaling=True,
            head={"template": template(container(securityContext={"runAsNonRoot": True}))},
            groups=[group(template=template(container(securityContext={"runAsNonRoot": True})))],
        ),
        DEFAULT,
    ),
    "redis": (ray_cluster(gcsFaultToleranceOptions=REDIS), DEFAULT),
    "redis-by-annotation": (
        ray_cluster(
            annotations={"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "mine"},
            head={"rayStartParams": {"redis-password": "$SECRET"}},
        ),
        DEFAULT,
    ),
    "rocksdb": (
        ray_cluster(
            gcsFaultToleranceOptions={
                "backend": "rocksdb",
                "storage": {"size": "2Gi", "storageClassName": "fast", "subPath": "gcs"},
            }
        ),
        EVERYTHING,
    ),
    "rocksdb-retained": (
        ray_cluster(
            gcsFaultToleranceOptions={"backend": "rocksdb", "storage": {"deletionPolicy": "Retain"}}
        ),
        EVERYTHING,
    ),
    "rocksdb-own-claim": (
        ray_cluster(
            gcsFaultToleranceOptions={"backend": "rocksdb", "storage": {"claimName": "mine"}}
        ),
        EVERYTHING,
    ),
    "token": (ray_cluster(authOptions={"mode": "token"}, enableInTreeAutoscaling=True), DEFAULT),
    "token-own-secret": (ray_cluster(authOptions={"mode": "token", "secretName": "own"}), DEFAULT),
    "token-by-kubernetes": (
        ray_cluster(
            authOptions={"mode": "token", "enableK8sTokenAuth": True}, enableInTreeAutoscaling=True
        ),
        DEFAULT,
    ),
    "tls": (ray_cluster(tlsOptions={"enabled": True}, enableInTreeAutoscaling=True), EVERYTHING),
    "drain": (
        ray_cluster(
            annotations={"manta.ray.io/drain-seconds": "120", "manta.ray.io/protect-head": "true"}
        ),
        DEFAULT,
    ),
    "drain-own-hook": (
        ray_cluster(
            annotations={"manta.ray.io/drain-seconds": "20"},
            groups=[
                group(
                    template=template(
                        container(lifecycle={"preStop": {"exec": {"command": ["true"]}}}),
                        terminationGracePeriodSeconds=600,
                    )
                )
            ],
        ),
        DEFAULT,
    ),
    "history": (
        ray_cluster(
            historyServerOptions={
                "collectorOptions": {
                    "image": "collector:1",
                    "env": [
                        {"name": "STORAGE_BACKEND", "value": "S3"},
                        {"name": "S3_REGION", "value": "x"},
                    ],
                }
            }
        ),
        EVERYTHING,
    ),
    "history-sidecar": (
        ray_cluster(groups=[group(replicas=1)]),
        replace(DEFAULT, history_store="s3://bucket/ray", history_image="manta:1"),
    ),
    "history-sidecar-before-1.29": (
        ray_cluster(groups=[]),
        replace(
            DEFAULT,
            history_store="s3://bucket/ray",
            history_image="manta:1",
            native_sidecars=False,
        ),
    ),
    "network-policy": (
        ray_cluster(
            groups=[group("a"), group("b")],
            labels={
                "ray.io/originated-from-crd": "RayJob",
                "ray.io/originated-from-cr-name": "job",
                "ray.io/job-submission-mode": "K8sJobMode",
            },
            networkPolicy={
                "head": {"ingressRules": [{"ports": [{"port": 8265}]}]},
                "worker": {"egressRules": [{"ports": [{"port": 53}]}]},
                "workerGroups": [{"groupName": "b", "ingressRules": [{"ports": [{"port": 1}]}]}],
            },
        ),
        EVERYTHING,
    ),
    "network-policy-ingress": (ray_cluster(networkPolicy={"mode": "DenyAllIngress"}), EVERYTHING),
    "network-policy-egress": (
        ray_cluster(
            networkPolicy={
                "mode": "DenyAllEgress",
                "head": {"egressRules": [{"ports": [{"port": 53, "protocol": "UDP"}]}]},
                "worker": {"egressRules": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
            }
        ),
        EVERYTHING,
    ),
    "multi-host": (ray_cluster(groups=[group(replicas=2, numOfHosts=2)]), DEFAULT),
    "of-a-service": (_of_service(), DEFAULT),
    "of-a-service-exec-probes": (_of_service(rayVersion="2.10.0"), DEFAULT),
    "ingress": (
        ray_cluster(
            head={"enableIngress": True},
            annotations={"kubernetes.io/ingress.class": "nginx", "own": "yes"},
        ),
        DEFAULT,
    ),
    "ingress-options": (
        ray_cluster(
            head={
                "enableIngress": True,
                "ingressOptions": {
                    "host": "ray.example.com",
                    "path": "/demo",
                    "pathType": "Exact",
                    "tls": [{"hosts": ["ray.example.com"], "secretName": "cert"}],
                },
            }
        ),
        DEFAULT,
    ),
    "route": (ray_cluster(head={"enableIngress": True}), replace(DEFAULT, openshift=True)),
    "ingress-on-openshift": (
        ray_cluster(head={"enableIngress": True}),
        replace(DEFAULT, openshift=True, ingress_on_openshift=True),
    ),
    "serve-service": (
        ray_cluster(
            annotations={"ray.io/enable-serve-service": "true"}, head={"serviceType": "NodePort"}
        ),
        DEFAULT,
    ),
    "head-ports": (ray_cluster(head={"template": template(container(ports=PORTS))}), DEFAULT),
    "head-cluster-ip": (ray_cluster(), replace(DEFAULT, head_cluster_ip_service=True)),
    "head-node-port": (
        ray_cluster(head={"serviceType": "NodePort"}, headServiceAnnotations={"a": "b"}),
        DEFAULT,
    ),
    "custom-head-service": (
        ray_cluster(
            head={
                "headService": {
                    "metadata": {
                        "name": "own-head",
                        "labels": {"own": "yes"},
                        "annotations": {"x": "y"},
                    },
                    "spec": {"type": "LoadBalancer", "ports": [{"name": "dashboard", "port": 80}]},
                }
            }
        ),
        DEFAULT,
    ),
    "overridden-labels": (
        ray_cluster(
            head={
                "template": {
                    "metadata": {
                        "labels": {
                            "app.kubernetes.io/name": "mine",
                            "ray.io/cluster": "stolen",
                            "ray.io/node-type": "stolen",
                            "ray.io/group": "stolen",
                        },
                        "annotations": {"kept": "yes"},
                        "name": "dropped",
                    },
                    "spec": {"containers": [container()]},
                }
            }
        ),
        DEFAULT,
    ),
    "operator-defaults": (
        ray_cluster(),
        replace(
            DEFAULT,
            head_sidecar_containers=({"name": "head-side", "image": "i"},),
            worker_sidecar_containers=({"name": "worker-side", "image": "i"},),
            default_container_envs=({"name": "TEAM", "value": "a"},),
            default_pod_labels={"team": "a", "ray.io/cluster": "never"},
            default_pod_annotations={"note": "b"},
        ),
    ),
    "user-init-and-sidecar": (
        ray_cluster(
            head={
                "template": template(
                    container(), container("side"), initContainers=[container("prepare")]
                )
            },
            groups=[
                group(
                    template=template(
                        container(env=[{"name": "A", "value": "b"}]),
                        initContainers=[container("prepare")],
                    )
                )
            ],
        ),
        DEFAULT,
    ),
}

CLEANUPS: dict[str, tuple[dict[str, Any], Settings]] = {
    "redis-cleanup": (ray_cluster(gcsFaultToleranceOptions=REDIS), DEFAULT),
    "redis-cleanup-no-credentials": (
        ray_cluster(gcsFaultToleranceOptions={"redisAddress": "rediss://redis:6380"}),
        DEFAULT,
    ),
    "redis-cleanup-credentials-by-secret": (
        ray_cluster(
            gcsFaultToleranceOptions={
                "redisAddress": "redis-0:6379,redis-1:6379",
                "redisUsername": {
                    "valueFrom": {"secretKeyRef": {"name": "redis", "key": "username"}}
                },
                "redisPassword": {
                    "valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}
                },
                "externalStorageNamespace": "mine",
            }
        ),
        DEFAULT,
    ),
    "redis-cleanup-by-annotation": (
        ray_cluster(
            annotations={"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "mine"},
            head={
                "rayStartParams": {"redis-password": "$SECRET"},
                "template": template(
                    container(env=[{"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}])
                ),
            },
        ),
        DEFAULT,
    ),
    "redis-cleanup-init-and-sidecar": (
        ray_cluster(
            gcsFaultToleranceOptions=REDIS,
            head={
                "template": {
                    "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q", "own": "yes"}},
                    **template(
                        container(
                            command=["sh", "-c", "setup"],
                            livenessProbe={"tcpSocket": {"port": 1}},
                            lifecycle={"preStop": {"exec": {"command": ["true"]}}},
                            volumeMounts=[{"name": "certs", "mountPath": "/certs"}],
                        ),
                        container("side"),
                        initContainers=[container("prepare")],
                        volumes=[{"name": "certs", "secret": {"secretName": "certs"}}],
                        imagePullSecrets=[{"name": "registry"}],
                        restartPolicy="Always",
                    ),
                }
            },
        ),
        DEFAULT,
    ),
    "redis-cleanup-tls": (
        ray_cluster(
            gcsFaultToleranceOptions=REDIS,
            tlsOptions={"enabled": True},
            head={"template": template(container(), initContainers=[container("prepare")])},
        ),
        EVERYTHING,
    ),
    "redis-cleanup-token-and-autoscaler": (
        ray_cluster(
            gcsFaultToleranceOptions=REDIS,
            authOptions={"mode": "token"},
            enableInTreeAutoscaling=True,
        ),
        DEFAULT,
    ),
    "redis-cleanup-login-shell": (
        ray_cluster(gcsFaultToleranceOptions=REDIS),
        replace(DEFAULT, login_shell=True),
    ),
}
"""What is made when a cluster is deleted whose tables are in Redis."""


class _Plain(yaml.SafeDumper):
    """Scripts as blocks, and no anchors: for people who read diffs."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Plain, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _text)


def _made(manifest: dict[str, Any], settings: Settings) -> str:
    scenario = Scenario(decode(manifest), settings)
    scenario.serial = 1
    assert not scenario.snapshot().violations
    made = []
    for _ in range(2):  # the first only sets a finalizer (Redis), or asks for certificates (TLS)
        chosen = scenario.reconcile()
        made += [action.manifest for action in chosen.actions if isinstance(action, Create)]
        scenario.issue_certificates()
    return _written(made)


def _made_at_the_end(manifest: dict[str, Any], settings: Settings) -> str:
    scenario = Scenario(decode(manifest), settings)
    scenario.settle()
    gone = msgspec.structs.replace(
        scenario.cluster.metadata, deletion_timestamp=format_time(scenario.now)
    )
    scenario.cluster = msgspec.structs.replace(scenario.cluster, metadata=gone)
    made = []
    for _ in range(2):  # the first takes the Pods away
        chosen = scenario.reconcile()
        made += [action.manifest for action in chosen.actions if isinstance(action, Create)]
        scenario.remove_deleted()
    assert [one["kind"] for one in made] == ["Job"]
    return _written(made)


def _written(made: list[Any]) -> str:
    return yaml.dump_all(made, Dumper=_Plain, sort_keys=False, width=10_000)


def _compare(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("MANTA_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"differs from {path}; MANTA_GOLDEN=1 writes it again"


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_for_a_cluster_is_what_was_reviewed(name: str) -> None:
    _compare(name, _made(*CASES[name]))


@pytest.mark.parametrize("name", CLEANUPS)
def test_what_is_made_to_clean_redis_is_what_was_reviewed(name: str) -> None:
    _compare(name, _made_at_the_end(*CLEANUPS[name]))


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {*CASES, *CLEANUPS}
