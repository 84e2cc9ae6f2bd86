"""Expected objects are those of the recorded answers of a real kube-apiserver 1.35."""

from __future__ import annotations

import copy
from typing import Any, Never

import pytest

from manta.localplane.apiserver.builtin_kinds.context import AdmissionDeniedError
from support.strategies import strategy_of

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


class Server:
    """A context with one ServiceAccount and no PriorityClass, by default."""

    def __init__(self) -> None:
        self.accounts: dict[str, Any] = {"default": {}}
        self.classes: dict[str, Any] = {}

    def now(self):
        return "2026-11-15T06:37:50Z"

    def cluster_ip(self, metadata, wanted):
        return wanted or "10.0.0.117"

    def node_port(self, metadata, wanted):
        return wanted or 30123

    def service_account(self, namespace, name):
        return self.accounts.get(name)

    def priority_class(self, name):
        return self.classes.get(name)

    def default_priority_class(self):
        return next((one for one in self.classes.values() if one.get("globalDefault")), None)

    def random_suffix(self) -> str:
        return "cjj7q"


def create(kind, obj, api_version="v1", server=None):
    before = copy.deepcopy(obj)
    result = strategy_of(api_version, kind).prepare_create(obj, server or Server())
    assert obj == before
    return result


def pod(**spec):
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80}]}
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container]} | spec,
    }


def test_a_pod_comes_out_as_recorded() -> None:
    made = create("Pod", pod())
    mount = {"name": "kube-api-access-cjj7q", "readOnly": True, "mountPath": PATH}
    assert made["spec"]["containers"] == [
        {
            "name": "c",
            "image": "i",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "resources": {},
            "volumeMounts": [mount],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]
    taint = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert made["spec"]["tolerations"] == [
        {"key": "node.kubernetes.io/not-ready", **taint},
        {"key": "node.kubernetes.io/unreachable", **taint},
    ]
    volumes = made["spec"]["volumes"]
    assert [volume["name"] for volume in volumes] == ["kube-api-access-cjj7q"]
    assert volumes[0]["projected"]["defaultMode"] == 420
    scalars = {
        key: made["spec"][key] for key in made["spec"] if not isinstance(made["spec"][key], list)
    }
    assert scalars == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_what_a_client_owns_is_what_it_sent_with_defaults() -> None:
    owned = strategy_of("v1", "Pod").default(pod())
    assert "volumes" not in owned["spec"]
    assert "tolerations" not in owned["spec"]
    assert owned["spec"]["enableServiceLinks"] is True


def test_requests_follow_limits_and_quantities_are_canonical() -> None:
    limits = {"cpu": "2000m", "memory": "2048Mi"}
    containers = [
        {"name": "c", "image": "i:1", "resources": {"limits": limits, "requests": {"cpu": 1}}}
    ]
    made = create("Pod", pod(containers=containers))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "2Gi"},
        "requests": {"cpu": "1", "memory": "2Gi"},
    }
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"memory": "1Gi"}}, "Burstable"),
    ],
)
def test_the_quality_of_service_follows_from_resources(resources, quality) -> None:
    containers = [{"name": "c", "image": "i", "resources": resources}]
    assert create("Pod", pod(containers=containers))["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:1", "IfNotPresent"),
        ("host:5000/i", "Always"),
        ("host:5000/i:1", "IfNotPresent"),
        ("i@sha256:abc", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_from_the_tag(image, policy) -> None:
    made = create("Pod", pod(containers=[{"name": "c", "image": image}]))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_probes_volumes_and_field_references_get_their_defaults() -> None:
    container = {
        "name": "c",
        "image": "i",
        "livenessProbe": {"httpGet": {"port": 80}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    }
    volumes = [{"name": "e"}, {"name": "s", "secret": {"secretName": "x"}}]
    made = create("Pod", pod(containers=[container], volumes=volumes))["spec"]
    probe = made["containers"][0]["livenessProbe"]
    assert probe == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert made["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert made["volumes"][:2] == [
        {"name": "e", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
    ]


def test_a_pod_of_an_unknown_account_is_refused_as_recorded() -> None:
    server = Server()
    server.accounts = {}
    with pytest.raises(AdmissionDeniedError) as refused:
        create("Pod", pod(), server=server)
    assert str(refused.value) == (
        'error looking up service account default/default: serviceaccount "default" not found'
    )


def test_an_account_may_decline_its_token_and_bring_pull_secrets() -> None:
    server = Server()
    server.accounts["default"] = {
        "automountServiceAccountToken": False,
        "imagePullSecrets": [{"name": "s"}],
    }
    made = create("Pod", pod(), server=server)["spec"]
    assert "volumes" not in made
    assert made["imagePullSecrets"] == [{"name": "s"}]


def test_priorities_come_from_classes() -> None:
    server = Server()
    server.classes["high"] = {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}
    made = create("Pod", pod(priorityClassName="high"), server=server)["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (7, "Never")
    with pytest.raises(AdmissionDeniedError, match="no PriorityClass with name low was found"):
        create("Pod", pod(priorityClassName="low"), server=server)
    with pytest.raises(AdmissionDeniedError, match="must not be provided"):
        create("Pod", pod(priority=3), server=server)
    server.classes["high"]["globalDefault"] = True
    assert create("Pod", pod(), server=server)["spec"]["priorityClassName"] == "high"


def test_a_service_comes_out_as_recorded() -> None:
    sent = {"metadata": {"name": "svc"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    assert create("Service", sent)["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "selector": {"a": "b"},
        "clusterIP": "10.0.0.117",
        "clusterIPs": ["10.0.0.117"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }


def test_a_headless_service_has_no_address_and_an_alias_has_nothing() -> None:
    headless = {"spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}}}
    assert create("Service", {"metadata": {}, **headless})["spec"]["clusterIPs"] == ["None"]
    alias = {"metadata": {}, "spec": {"type": "ExternalName", "externalName": "x.example"}}
    made = create("Service", alias)["spec"]
    assert made == {"type": "ExternalName", "externalName": "x.example", "sessionAffinity": "None"}


def test_a_service_keeps_its_address_and_node_ports_when_replaced() -> None:
    sent = {
        "metadata": {},
        "spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}},
    }
    old = create("Service", sent)
    assert old["spec"]["ports"][0]["nodePort"] == 30123
    old["spec"]["clusterIP"], old["spec"]["clusterIPs"] = "10.0.0.9", ["10.0.0.9"]
    old["spec"]["ports"][0]["nodePort"] = 31000
    new = strategy_of("v1", "Service").prepare_update(old, sent, Server(), "")
    assert new["spec"] == old["spec"]
    plain = {"metadata": {}, "spec": {**old["spec"], "type": "ClusterIP"}}
    changed = strategy_of("v1", "Service").prepare_update(old, plain, Server(), "")["spec"]
    assert "nodePort" not in changed["ports"][0]
    assert "externalTrafficPolicy" not in changed


def test_addresses_are_asked_for_only_when_they_are_new() -> None:
    class Stingy(Server):
        def cluster_ip(self, metadata, wanted) -> Never:
            raise AssertionError("asked for an address")

        def node_port(self, metadata, wanted) -> Never:
            raise AssertionError("asked for a port")

    spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}}
    old = create("Service", {"metadata": {}, "spec": spec})
    new = {"metadata": {"labels": {"a": "b"}}, "spec": old["spec"]}
    assert (
        strategy_of("v1", "Service").prepare_update(old, new, Stingy(), "")["spec"] == old["spec"]
    )


def test_a_job_comes_out_as_recorded() -> None:
    uid = "8a8646fc-6474-436c-96d5-ec090a687ece"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    made = create(
        "Job", {"metadata": {"name": "j", "uid": uid}, "spec": {"template": template}}, "batch/v1"
    )
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert made["metadata"]["labels"] == labels
    spec = made["spec"]
    assert spec.pop("template")["metadata"] == {"labels": labels}
    assert spec == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "manualSelector": False,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert made["status"] == {}


def test_a_deployment_rolls_by_quarters() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = create("Deployment", {"metadata": {"name": "d"}, "spec": spec}, "apps/v1")["spec"]
    assert made["replicas"] == 1
    assert made["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (made["revisionHistoryLimit"], made["progressDeadlineSeconds"]) == (10, 600)
    assert "enableServiceLinks" not in made["template"]["spec"]


def test_string_data_becomes_data_and_is_not_shown() -> None:
    made = create("Secret", {"metadata": {}, "stringData": {"a": "b"}})
    assert made == {"metadata": {}, "data": {"a": "Yg=="}, "type": "Opaque"}


def test_a_namespace_is_labelled_and_has_a_finalizer() -> None:
    made = create("Namespace", {"metadata": {"name": "n"}, "status": {"phase": "Odd"}})
    assert made == {
        "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


@pytest.mark.parametrize(
    ("kind", "api_version", "obj", "path", "value"),
    [
        ("PersistentVolumeClaim", "v1", {"spec": {}}, ("status", "phase"), "Pending"),
        ("PersistentVolumeClaim", "v1", {"spec": {}}, ("spec", "volumeMode"), "Filesystem"),
        (
            "PriorityClass",
            "scheduling.k8s.io/v1",
            {},
            ("preemptionPolicy",),
            "PreemptLowerPriority",
        ),
        (
            "RoleBinding",
            "rbac.authorization.k8s.io/v1",
            {"roleRef": {"kind": "Role"}},
            ("roleRef", "apiGroup"),
            "rbac.authorization.k8s.io",
        ),
        (
            "NetworkPolicy",
            "networking.k8s.io/v1",
            {"spec": {"egress": [{}]}},
            ("spec", "policyTypes"),
            ["Ingress", "Egress"],
        ),
        (
            "EndpointSlice",
            "discovery.k8s.io/v1",
            {"ports": [{"port": 1}]},
            ("ports",),
            [{"port": 1, "name": "", "protocol": "TCP"}],
        ),
        ("StatefulSet", "apps/v1", {"spec": {}}, ("spec", "podManagementPolicy"), "OrderedReady"),
        (
            "DaemonSet",
            "apps/v1",
            {"spec": {}},
            ("spec", "updateStrategy", "rollingUpdate"),
            {"maxUnavailable": 1, "maxSurge": 0},
        ),
        ("CronJob", "batch/v1", {"spec": {}}, ("spec", "concurrencyPolicy"), "Allow"),
        ("HorizontalPodAutoscaler", "autoscaling/v2", {"spec": {}}, ("spec", "minReplicas"), 1),
        (
            "Node",
            "v1",
            {"status": {"capacity": {"cpu": "4"}}},
            ("status", "allocatable"),
            {"cpu": "4"},
        ),
    ],
)
def test_smaller_kinds_get_their_defaults(kind, api_version, obj, path, value) -> None:
    found = create(kind, {"metadata": {}, **obj}, api_version)
    for part in path:
        found = found[part]
    assert found == value
