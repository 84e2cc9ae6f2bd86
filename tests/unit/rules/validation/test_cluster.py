"""Each rule of a RayCluster has a case: the error, the field, and the cure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.conditions import find
from manta.api.meta import Condition
from manta.api.ray.cluster import ClusterConditionType
from manta.controllers.raycluster.status_events import spec_warnings
from manta.rules.advice import cluster_advice
from manta.rules.settings import FeatureGates, Settings
from manta.rules.validation.cluster import cluster_violations, spec_violations
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode

OPEN = Settings(
    gates=FeatureGates(
        ray_cluster_network_policy=True,
        gcs_fault_tolerance_embedded_storage=True,
        ray_cluster_mtls=True,
        ray_cluster_history_server=True,
    ),
    cert_manager=True,
)
CLOSED = Settings()


def env(**variables: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def head(**fields: Any) -> dict[str, Any]:
    return {"template": template(container(**fields))}


def auto(version: str | None = None, **spec: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"autoscalerOptions": {"version": version}} if version else {}
    return ray_cluster(enableInTreeAutoscaling=True, **options, **spec)


def gcs(**options: Any) -> dict[str, Any]:
    return {"gcsFaultToleranceOptions": options}


def rocksdb(**options: Any) -> dict[str, Any]:
    return gcs(backend="rocksdb", **options)


def history(image: str = "i", **variables: str) -> dict[str, Any]:
    collector = {"image": image, "env": env(**variables)}
    return {"historyServerOptions": {"collectorOptions": collector}}


def policy(**fields: Any) -> dict[str, Any]:
    return {"networkPolicy": fields}


TLS: dict[str, Any] = {"tlsOptions": {"enabled": True}}
G = "spec.workerGroupSpecs[0]"
H = "spec.headGroupSpec"
RULES: list[Any] = [{"ports": []}]
NEVER = {"restartPolicy": "OnFailure"}

# rule, object, field that is named, a word of the cure
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("RC1", ray_cluster("a" * 54), "metadata.name", "at most 53"),
    ("RC2", ray_cluster("1abc"), "metadata.name", "DNS-1035"),
    (
        "C96 drain",
        ray_cluster(annotations={"manta.ray.io/drain-seconds": "2m"}),
        "metadata.annotations[manta.ray.io/drain-seconds]",
        "number of seconds",
    ),
    ("RC3", ray_cluster(head={"template": {}}), f"{H}.template.spec.containers", "at least one"),
    (
        "RC4",
        ray_cluster(head={"rayStartParams": {"num-cpus": "1"}, "resources": {"CPU": "1"}}),
        f"{H}.rayStartParams.num-cpus",
        "says the same",
    ),
    (
        "RC5",
        ray_cluster(head={"rayStartParams": {"labels": "a=b"}}),
        f"{H}.rayStartParams.labels",
        "use",
    ),
    ("RC6 key", ray_cluster(head={"labels": {"a b": "c"}}), f"{H}.labels", "must consist"),
    ("RC6 value", ray_cluster(head={"labels": {"a": "c d"}}), f"{H}.labels[a]", "must"),
    (
        "RC4 gpus",
        ray_cluster(head={"rayStartParams": {"num-gpus": "1"}, "resources": {"CPU": "1"}}),
        f"{H}.rayStartParams.num-gpus",
        "says the same",
    ),
    (
        "RC4 resources",
        ray_cluster(head={"rayStartParams": {"resources": "'{}'"}, "resources": {"CPU": "1"}}),
        f"{H}.rayStartParams.resources",
        "says the same",
    ),
    (
        "RC7",
        ray_cluster(groups=[group(template={})]),
        f"{G}.template.spec.containers",
        "at least one",
    ),
    ("RC8 min", ray_cluster(groups=[group(minReplicas=None)]), f"{G}.minReplicas", "must be set"),
    ("RC8 max", ray_cluster(groups=[group(maxReplicas=None)]), f"{G}.maxReplicas", "must be set"),
    ("RC9", ray_cluster(groups=[group(minReplicas=-1)]), f"{G}.minReplicas", "zero or more"),
    ("RC10", ray_cluster(groups=[group(maxReplicas=-1)]), f"{G}.maxReplicas", "zero or more"),
    ("RC11", ray_cluster(groups=[group(minReplicas=11)]), f"{G}.minReplicas", "maxReplicas (10)"),
    (
        "RC12",
        ray_cluster(groups=[group(rayStartParams={"memory": "1"}, resources={"CPU": "1"})]),
        f"{G}.rayStartParams.memory",
        "says the same",
    ),
    (
        "RC12 labels",
        ray_cluster(groups=[group(rayStartParams={"labels": "a=b"})]),
        f"{G}.rayStartParams.labels",
        "use",
    ),
    ("RC12 label", ray_cluster(groups=[group(labels={"a": "-"})]), f"{G}.labels[a]", "must"),
    ("RC13", auto("v2", groups=[group(idleTimeoutSeconds=-1)]), f"{G}.idleTimeoutSeconds", "zero"),
    ("RC14", auto(groups=[group(idleTimeoutSeconds=1)]), f"{G}.idleTimeoutSeconds", "v2"),
    (
        "RC15 unset",
        auto("v2", groups=[group(priority=1)], rayVersion=""),
        f"{G}.priority",
        "rayVersion",
    ),
    (
        "RC15 unreadable",
        auto("v2", groups=[group(priority=1)], rayVersion="nightly"),
        f"{G}.priority",
        "rayVersion",
    ),
    (
        "RC15 old",
        auto("v2", groups=[group(priority=1)], rayVersion="2.55.0"),
        f"{G}.priority",
        "2.56.0",
    ),
    ("RC16", auto(groups=[group(priority=1)]), f"{G}.priority", "v2"),
    (
        "RC17",
        ray_cluster(annotations={"ray.io/ft-enabled": "true"}, **gcs(redisAddress="r")),
        "metadata.annotations[ray.io/ft-enabled]",
        "remove it",
    ),
    ("RC18", ray_cluster(head=head(env=env(RAY_REDIS_ADDRESS="r"))), f"{H}.template", "no effect"),
    (
        "RC19",
        ray_cluster(head={"rayStartParams": {"redis-password": "p"}}, **gcs(redisAddress="r")),
        f"{H}.rayStartParams.redis-password",
        "remove it",
    ),
    (
        "RC20",
        ray_cluster(head=head(env=env(REDIS_PASSWORD="p")), **gcs()),
        f"{H}.template",
        "remove",
    ),
    (
        "RC21",
        ray_cluster(head=head(env=env(RAY_REDIS_ADDRESS="p")), **gcs()),
        f"{H}.template",
        "remove",
    ),
    (
        "RC22",
        ray_cluster(annotations={"ray.io/external-storage-namespace": "n"}, **gcs()),
        "metadata.annotations[ray.io/external-storage-namespace]",
        "remove it",
    ),
    (
        "RC24",
        ray_cluster(**rocksdb(redisAddress="r")),
        "spec.gcsFaultToleranceOptions.redisAddress",
        "Redis",
    ),
    (
        "RC25",
        ray_cluster(**rocksdb(redisUsername={"value": "u"})),
        "spec.gcsFaultToleranceOptions.redisUsername",
        "Redis",
    ),
    (
        "RC26",
        ray_cluster(**rocksdb(redisPassword={"value": "u"})),
        "spec.gcsFaultToleranceOptions.redisPassword",
        "Redis",
    ),
    (
        "RC27",
        ray_cluster(**rocksdb(externalStorageNamespace="n")),
        "spec.gcsFaultToleranceOptions.externalStorageNamespace",
        "Redis",
    ),
    (
        "RC28",
        ray_cluster(**rocksdb(storage={"claimName": "c", "size": "1Gi"})),
        "spec.gcsFaultToleranceOptions.storage.size",
        "claimName",
    ),
    (
        "RC28 class",
        ray_cluster(**rocksdb(storage={"claimName": "c", "storageClassName": "fast"})),
        "spec.gcsFaultToleranceOptions.storage.storageClassName",
        "claimName",
    ),
    (
        "RC28 modes",
        ray_cluster(**rocksdb(storage={"claimName": "c", "accessModes": ["ReadWriteMany"]})),
        "spec.gcsFaultToleranceOptions.storage.accessModes",
        "claimName",
    ),
    (
        "RC29",
        ray_cluster(head=head(env=env(RAY_gcs_storage="x")), **rocksdb()),
        f"{H}.template",
        "remove",
    ),
    (
        "RC29 path",
        ray_cluster(head=head(env=env(RAY_gcs_storage_path="x")), **rocksdb()),
        f"{H}.template",
        "remove",
    ),
    (
        "RC30 name",
        ray_cluster(
            head=head(volumeMounts=[{"name": "gcs-storage", "mountPath": "/x"}]), **rocksdb()
        ),
        f"{H}.template",
        "another",
    ),
    (
        "RC30 path",
        ray_cluster(head=head(volumeMounts=[{"name": "x", "mountPath": "/data/gcs"}]), **rocksdb()),
        f"{H}.template",
        "another",
    ),
    (
        "RC31",
        ray_cluster(
            head={"template": template(volumes=[{"name": "gcs-storage", "emptyDir": {}}])},
            **rocksdb(),
        ),
        f"{H}.template.spec.volumes",
        "another",
    ),
    (
        "RC32",
        ray_cluster(**gcs(redisAddress="r", storage={"size": "1Gi"})),
        "spec.gcsFaultToleranceOptions.storage",
        "rocksdb",
    ),
    (
        "RC33 param",
        ray_cluster(head={"rayStartParams": {"redis-username": "u"}}),
        f"{H}.rayStartParams.redis-username",
        "redisUsername",
    ),
    (
        "RC33 env",
        ray_cluster(head=head(env=env(REDIS_USERNAME="u"))),
        f"{H}.template",
        "redisUsername",
    ),
    (
        "RC35",
        ray_cluster(head=head(env=env(RAY_enable_autoscaler_v2="1"))),
        f"{H}.template",
        "enableInTreeAutoscaling",
    ),
    ("RC36", auto(groups=[group(suspend=True)]), f"{G}.suspend", "autoscaler"),
    (
        "RC37",
        auto("v2", head=head(env=env(RAY_enable_autoscaler_v2="true"))),
        f"{H}.template",
        "version",
    ),
    (
        "RC38",
        auto("v2", head={"template": template(**NEVER)}),
        f"{H}.template.spec.restartPolicy",
        "Never",
    ),
    (
        "RC39",
        auto("v2", groups=[group(template=template(**NEVER))]),
        f"{G}.template.spec.restartPolicy",
        "Never",
    ),
    (
        "RC40",
        ray_cluster(autoscalerOptions={"idleTimeoutSeconds": -1}),
        "spec.autoscalerOptions.idleTimeoutSeconds",
        "zero",
    ),
    (
        "RC41",
        ray_cluster(autoscalerOptions={"env": env(KUBERAY_GEN_AUTOSCALER_START_CMD="x")}),
        "spec.autoscalerOptions.env",
        "set by the operator",
    ),
    (
        "RC43",
        ray_cluster(historyServerOptions={}),
        "spec.historyServerOptions.collectorOptions",
        "must be set",
    ),
    (
        "RC44",
        ray_cluster(**history(image="", STORAGE_BACKEND="x")),
        "spec.historyServerOptions.collectorOptions.image",
        "must be set",
    ),
    (
        "RC45",
        ray_cluster(**history(STORAGE_BACKEND="x", POD_IP="1")),
        "spec.historyServerOptions.collectorOptions.env",
        "remove",
    ),
    (
        "RC46",
        ray_cluster(**history()),
        "spec.historyServerOptions.collectorOptions.env",
        "STORAGE_BACKEND",
    ),
    (
        "RC47 GCS",
        ray_cluster(**history(STORAGE_BACKEND="GCS")),
        "spec.historyServerOptions",
        "GCS_BUCKET",
    ),
    (
        "RC47 S3",
        ray_cluster(**history(STORAGE_BACKEND="S3")),
        "spec.historyServerOptions",
        "S3_REGION",
    ),
    (
        "RC47 Azure",
        ray_cluster(**history(STORAGE_BACKEND="AzureBlob")),
        "spec.historyServerOptions",
        "AZURE_STORAGE",
    ),
    (
        "RC47 empty",
        ray_cluster(**history(STORAGE_BACKEND="GCS", GCS_BUCKET="")),
        "spec.historyServerOptions",
        "GCS_BUCKET",
    ),
    (
        "RC47 OSS",
        ray_cluster(**history(STORAGE_BACKEND="ALIYUNOSS")),
        "spec.historyServerOptions",
        "OSS_",
    ),
    (
        "RC48",
        ray_cluster(
            head={"template": template(container(), container("ray-history-collector"))},
            **history(STORAGE_BACKEND="x"),
        ),
        f"{H}.template.spec.containers",
        "choose another",
    ),
    (
        "RC48 worker",
        ray_cluster(
            groups=[group(template=template(container(), container("ray-history-collector")))],
            **history(STORAGE_BACKEND="x"),
        ),
        f"{G}.template.spec.containers",
        "choose another",
    ),
    (
        "RC49",
        ray_cluster(authOptions={"mode": "token"}, rayVersion=""),
        "spec.rayVersion",
        "must be set",
    ),
    (
        "RC50",
        ray_cluster(authOptions={"mode": "token"}, rayVersion="new"),
        "spec.rayVersion",
        "version",
    ),
    (
        "RC51",
        ray_cluster(authOptions={"mode": "token"}, rayVersion="2.51.9"),
        "spec.rayVersion",
        "2.52.0",
    ),
    (
        "RC52",
        ray_cluster(authOptions={"mode": "token", "enableK8sTokenAuth": True}, rayVersion="2.54.0"),
        "spec.authOptions.enableK8sTokenAuth",
        "2.55.0",
    ),
    (
        "RC53",
        ray_cluster(authOptions={"mode": "token", "enableK8sTokenAuth": True, "secretName": "s"}),
        "spec.authOptions.enableK8sTokenAuth",
        "secretName",
    ),
    (
        "RC54",
        ray_cluster(authOptions={"enableK8sTokenAuth": True}),
        "spec.authOptions.enableK8sTokenAuth",
        "mode",
    ),
    (
        "RC56",
        ray_cluster(**policy(mode="DenyAllEgress", head={"ingressRules": RULES})),
        "spec.networkPolicy.head.ingressRules",
        "DenyAllEgress",
    ),
    (
        "RC56 worker",
        ray_cluster(**policy(mode="DenyAllEgress", worker={"ingressRules": RULES})),
        "spec.networkPolicy.worker.ingressRules",
        "DenyAllEgress",
    ),
    (
        "RC56 group",
        ray_cluster(
            **policy(
                mode="DenyAllEgress",
                workerGroups=[{"groupName": "workers", "ingressRules": RULES}],
            )
        ),
        "spec.networkPolicy.workerGroups[0].ingressRules",
        "DenyAllEgress",
    ),
    (
        "RC57 head",
        ray_cluster(**policy(mode="DenyAllIngress", head={"egressRules": RULES})),
        "spec.networkPolicy.head.egressRules",
        "DenyAllIngress",
    ),
    (
        "RC57 group",
        ray_cluster(
            **policy(
                mode="DenyAllIngress",
                workerGroups=[{"groupName": "workers", "egressRules": RULES}],
            )
        ),
        "spec.networkPolicy.workerGroups[0].egressRules",
        "DenyAllIngress",
    ),
    (
        "RC57",
        ray_cluster(**policy(mode="DenyAllIngress", worker={"egressRules": RULES})),
        "spec.networkPolicy.worker.egressRules",
        "DenyAllIngress",
    ),
    ("RC58", ray_cluster(groups=[group("A")], **policy()), f"{G}.groupName", "RFC 1123"),
    (
        "RC59",
        ray_cluster(**policy(workerGroups=[{"groupName": "none"}])),
        "spec.networkPolicy.workerGroups[0].groupName",
        "workers",
    ),
    ("RC61", ray_cluster(head=head(env=env(RAY_USE_TLS="1")), **TLS), f"{H}.template", "remove"),
    (
        "RC61 autoscaler",
        ray_cluster(autoscalerOptions={"env": env(RAY_TLS_CA_CERT="x")}, **TLS),
        "spec.autoscalerOptions.env",
        "remove",
    ),
    (
        "RC61 worker",
        ray_cluster(
            groups=[group(template=template(container(env=env(RAY_TLS_SERVER_KEY="x"))))], **TLS
        ),
        f"{G}.template",
        "remove",
    ),
    (
        "RC62 autoscaler",
        ray_cluster(
            autoscalerOptions={"volumeMounts": [{"name": "x", "mountPath": "/etc/ray/tls"}]}, **TLS
        ),
        "spec.autoscalerOptions.volumeMounts",
        "remove",
    ),
    (
        "RC62",
        ray_cluster(
            groups=[
                group(
                    template=template(
                        container(volumeMounts=[{"name": "x", "mountPath": "/etc/ray/tls"}])
                    )
                )
            ],
            **TLS,
        ),
        f"{G}.template",
        "remove",
    ),
    (
        "RC62 name",
        ray_cluster(head=head(volumeMounts=[{"name": "ray-tls", "mountPath": "/x"}]), **TLS),
        f"{H}.template",
        "remove",
    ),
    (
        "RC64",
        ray_cluster(upgradeStrategy={"type": "Rolling"}),
        "spec.upgradeStrategy.type",
        "Recreate",
    ),
    (
        "RC65",
        ray_cluster(
            upgradeStrategy={"type": "None"}, labels={"ray.io/originated-from-crd": "RayJob"}
        ),
        "spec.upgradeStrategy.type",
        "RayJob",
    ),
    ("RC68 C13", ray_cluster(groups=[group("a"), group("a")]), f"{G}.groupName", "its own name"),
    ("C78 label", ray_cluster(groups=[group("a" * 64)]), f"{G}.groupName", "63"),
    ("C78 name", ray_cluster(groups=[group("a_b")]), f"{G}.groupName", "RFC 1123"),
    (
        "C78 hosts",
        ray_cluster(groups=[group("a" * 60, numOfHosts=2)]),
        f"{G}.groupName",
        "at most 57",
    ),
]

GATED: list[tuple[str, dict[str, Any], str]] = [
    ("RC23", ray_cluster(**rocksdb()), "GCSFaultToleranceEmbeddedStorage"),
    ("RC42", ray_cluster(**history(STORAGE_BACKEND="x")), "RayClusterHistoryServer"),
    ("RC55", ray_cluster(**policy()), "RayClusterNetworkPolicy"),
    ("RC60", ray_cluster(**TLS), "RayClusterMTLS"),
    ("RC63", ray_cluster(**TLS), "cert-manager"),
]


@pytest.mark.parametrize(
    ("rule", "manifest", "field", "cure"), CASES, ids=[one[0] for one in CASES]
)
def test_a_broken_rule_names_the_field_and_the_cure(
    rule: str, manifest: dict[str, Any], field: str, cure: str
) -> None:
    found = cluster_violations(decode(manifest), OPEN)
    assert any(one.field.startswith(field) and cure in one.message for one in found), found


@pytest.mark.parametrize(
    "name",
    [
        *("POD_IP", "FQ_RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE"),
        *("RAY_ROLE", "OWNER_KIND", "OWNER_NAME", "EVENTS_PORT"),
    ],
)
def test_rc45_what_the_operator_tells_the_collector_is_not_for_users(name: str) -> None:
    manifest = ray_cluster(**history(STORAGE_BACKEND="x", **{name: "1"}))
    [found] = cluster_violations(decode(manifest), OPEN)
    assert found.value == name


# Values that are not shown, because they may hold a secret or are long.
HIDDEN = ("set", "***")


@pytest.mark.parametrize(
    ("rule", "manifest", "settings"),
    [
        *((one[0], one[1], OPEN) for one in CASES),
        *((one[0], one[1], CLOSED) for one in GATED),
    ],
    ids=[*(one[0] for one in CASES), *(one[0] for one in GATED)],
)
def test_field_value_and_cure_are_reported_by_event_and_condition(
    rule: str, manifest: dict[str, Any], settings: Settings
) -> None:
    scenario = Scenario(decode(manifest), settings)
    assert scenario.reconcile().actions == (), "nothing is made or changed"
    blocked = find(scenario.cluster.status.conditions, ClusterConditionType.BLOCKED)
    notes = [one.note for one in spec_warnings(scenario.snapshot()) if one.type == "Warning"]
    assert blocked is not None
    for one in cluster_violations(decode(manifest), settings):
        for reported in (blocked.message, " ".join(notes)):
            assert f"{one.field}: " in reported
            assert one.message in reported
            assert _shown(one.value) in reported
        assert one.value in HIDDEN or _is_in(one.value, manifest), f"{one.value!r} is not there"


def _shown(value: Any) -> str:
    words = {None: "null", True: "true"}
    if value is None or value is True:
        return words[value]
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _is_in(value: Any, document: Any) -> bool:
    """The value is one that the user wrote, or one that they left out."""
    if value in (None, "", []) or value == document:
        return True
    if isinstance(value, list):
        return all(_is_in(one, document) for one in value)
    if isinstance(document, dict):
        return any(value == key or _is_in(value, one) for key, one in document.items())
    return isinstance(document, list) and any(_is_in(value, one) for one in document)


@pytest.mark.parametrize(("rule", "manifest", "cure"), GATED, ids=[one[0] for one in GATED])
def test_what_a_gate_guards_is_refused_while_it_is_closed(
    rule: str, manifest: dict[str, Any], cure: str
) -> None:
    assert any(cure in one.message for one in cluster_violations(decode(manifest), CLOSED))
    assert cluster_violations(decode(manifest), OPEN) == ()


def test_rc34_suspending_a_group_needs_its_gate() -> None:
    closed = replace(CLOSED, gates=replace(CLOSED.gates, ray_job_deletion_policy=False))
    manifest = ray_cluster(groups=[group(suspend=True)])
    assert cluster_violations(decode(manifest), CLOSED) == ()
    [found] = cluster_violations(decode(manifest), closed)
    assert "RayJobDeletionPolicy" in found.message


def test_rc66_a_cluster_is_not_both_suspending_and_suspended() -> None:
    types = ("RayClusterSuspending", "RayClusterSuspended")
    conditions = tuple(Condition(type=one, status="True") for one in types)
    cluster = decode(ray_cluster())
    status = msgspec.structs.replace(cluster.status, conditions=conditions)
    [found] = cluster_violations(msgspec.structs.replace(cluster, status=status), CLOSED)
    assert found.field == "status.conditions"


def test_rc67_v1_with_restarting_workers_is_only_advice() -> None:
    manifest = auto("v1", groups=[group(template=template(restartPolicy="Always"))])
    assert cluster_violations(decode(manifest), CLOSED) == ()
    [advice] = cluster_advice(decode(manifest).spec)
    assert "Never" in advice.message


@pytest.mark.parametrize(
    "manifest",
    [
        auto("v1", groups=[group(template=template(restartPolicy="Never"))]),
        auto("v1"),
        ray_cluster(groups=[group(template=template(restartPolicy="Always"))]),
    ],
    ids=["never restarted", "left out", "no autoscaler"],
)
def test_rc67_nothing_is_advised_about_other_workers(manifest: dict[str, Any]) -> None:
    assert list(cluster_advice(decode(manifest).spec)) == []


@pytest.mark.parametrize(
    "manifest",
    [
        ray_cluster(),
        ray_cluster("a" * 53),
        ray_cluster(groups=[]),
        ray_cluster(groups=[group(replicas=99)]),
        auto(groups=[group(minReplicas=None, maxReplicas=None)]),
        auto("v2", groups=[group(idleTimeoutSeconds=5, priority=3)]),
        auto("v2", groups=[group(idleTimeoutSeconds=0)]),
        auto(
            head=head(env=env(RAY_enable_autoscaler_v2="1")), groups=[group(idleTimeoutSeconds=5)]
        ),
        ray_cluster(head=head(env=env(RAY_enable_autoscaler_v2="0"))),
        ray_cluster(
            annotations={"ray.io/ft-enabled": "true"}, head=head(env=env(RAY_REDIS_ADDRESS="r"))
        ),
        ray_cluster(**gcs(redisAddress="r", redisUsername={"value": "u"})),
        ray_cluster(upgradeStrategy={"type": "Recreate"}),
        ray_cluster(groups=[group("Big-Group")]),
    ],
)
def test_a_good_cluster_has_nothing_wrong(manifest: dict[str, Any]) -> None:
    assert cluster_violations(decode(manifest), CLOSED) == ()


EMPTY = {
    "RC4": ray_cluster(head={"rayStartParams": {"num-cpus": ""}, "resources": {"CPU": "1"}}),
    "RC12": ray_cluster(groups=[group(rayStartParams={"memory": ""}, resources={"CPU": "1"})]),
    "RC17": ray_cluster(annotations={"ray.io/ft-enabled": ""}, **gcs(redisAddress="r")),
    "RC19": ray_cluster(head={"rayStartParams": {"redis-password": ""}}, **gcs(redisAddress="r")),
    "RC22": ray_cluster(
        annotations={"ray.io/external-storage-namespace": ""}, **gcs(redisAddress="r")
    ),
    "RC24 to RC28": ray_cluster(
        **rocksdb(
            redisAddress="", externalStorageNamespace="", storage={"claimName": "", "size": "1Gi"}
        )
    ),
    "RC33": ray_cluster(head={"rayStartParams": {"redis-username": ""}}),
    "RC35": ray_cluster(head=head(env=env(RAY_enable_autoscaler_v2=""))),
    "RC38": auto("v2", head={"template": template(restartPolicy="")}),
    "RC39": auto("v2", groups=[group(template=template(restartPolicy=""))]),
    "RC47": ray_cluster(
        **history(
            STORAGE_BACKEND="AzureBlob", AZURE_STORAGE_AUTH_MODE="", AZURE_STORAGE_ACCOUNT_URL="u"
        )
    ),
    "RC53": ray_cluster(
        authOptions={"mode": "token", "enableK8sTokenAuth": True, "secretName": ""}
    ),
    "RC57": ray_cluster(**policy(mode="DenyAllIngress", head={"egressRules": []})),
}


@pytest.mark.parametrize("rule", EMPTY)
def test_what_is_there_and_empty_counts_as_left_out(rule: str) -> None:
    """As with KubeRay: a spec that it runs must not be refused after a take-over."""
    assert cluster_violations(decode(EMPTY[rule]), OPEN) == ()


def test_rc35_only_what_kuberay_takes_for_true_is_refused() -> None:
    manifest = ray_cluster(head=head(env=env(RAY_enable_autoscaler_v2="True")))
    assert cluster_violations(decode(manifest), CLOSED) == ()


@pytest.mark.parametrize(
    ("mode", "given", "missing"),
    [
        (" Connection_String", "AZURE_STORAGE_ACCOUNT_URL", "AZURE_STORAGE_CONNECTION_STRING"),
        ("workload_identity", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_URL"),
        ("default", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_URL"),
    ],
)
def test_rc47_the_way_to_log_in_to_azure_says_what_it_needs(
    mode: str, given: str, missing: str
) -> None:
    said = {"STORAGE_BACKEND": "AzureBlob", "AZURE_STORAGE_AUTH_MODE": mode, given: "x"}
    [found] = cluster_violations(decode(ray_cluster(**history(**said))), OPEN)
    assert found.message == f"must contain {missing} for the storage AzureBlob"
    said[missing] = "y"
    assert cluster_violations(decode(ray_cluster(**history(**said))), OPEN) == ()


@pytest.mark.parametrize("mode", ["", "default", "workload_identity", "anything"])
def test_rc47_a_reference_is_as_good_as_a_value(mode: str) -> None:
    manifest = ray_cluster(**history(STORAGE_BACKEND="AzureBlob", AZURE_STORAGE_AUTH_MODE=mode))
    url = {"name": "AZURE_STORAGE_ACCOUNT_URL", "valueFrom": {"secretKeyRef": {"name": "s"}}}
    manifest["spec"]["historyServerOptions"]["collectorOptions"]["env"].append(url)
    assert cluster_violations(decode(manifest), OPEN) == ()


@pytest.mark.parametrize(
    ("variables", "store", "message"),
    [
        ({}, "", "must contain MANTA_HISTORY_STORE"),
        ({"MANTA_HISTORY_STORE": "bucket"}, "s3://b", "must start with file://"),
        ({"MANTA_HISTORY_STORE": "s3://k:secret@b"}, "", "no credentials"),
        ({"POD_IP": "1"}, "s3://b", "is set by the operator"),
    ],
)
def test_our_sidecar_needs_a_store(variables: dict[str, str], store: str, message: str) -> None:
    settings = replace(CLOSED, history_image="manta:1", history_store=store)
    [found] = cluster_violations(decode(ray_cluster(**history(image="", **variables))), settings)
    assert found.field == "spec.historyServerOptions.collectorOptions.env"
    assert message in found.message
    assert "secret" not in str(found)


def test_our_sidecar_needs_neither_the_gate_nor_kuberays_variables() -> None:
    settings = replace(CLOSED, history_image="manta:1", history_store="s3://b")
    assert cluster_violations(decode(ray_cluster(**history(image=""))), settings) == ()


def test_all_that_is_wrong_is_reported_at_once() -> None:
    found = cluster_violations(
        decode(ray_cluster("X" * 60, groups=[group(minReplicas=-1)])), CLOSED
    )
    assert {one.field for one in found} == {"metadata.name", f"{G}.minReplicas"}


def test_a_nested_cluster_is_named_by_its_own_path() -> None:
    spec = decode(ray_cluster(groups=[group(minReplicas=-1)])).spec
    [found] = spec_violations(spec, {}, CLOSED, at="spec.rayClusterSpec")
    assert found.field == "spec.rayClusterSpec.workerGroupSpecs[0].minReplicas"


def test_a_violation_reads_as_a_sentence_and_long_values_are_cut() -> None:
    [found] = cluster_violations(decode(ray_cluster(groups=[group(minReplicas=-1)])), CLOSED)
    assert str(found) == f"{G}.minReplicas: -1: must be zero or more"
    long = decode(ray_cluster("a" * 200))
    assert len(str(cluster_violations(long, CLOSED)[0])) < 200
