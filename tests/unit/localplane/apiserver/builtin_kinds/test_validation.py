from __future__ import annotations

import pytest

from manta.localplane.apiserver.schema.causes import summary
from support.strategies import strategy_of

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def said(kind, obj, old=None, api_version="v1", subresource=""):
    strategy = strategy_of(api_version, kind)
    before = None if old is None else strategy.default(old)
    causes = strategy.validate(strategy.default(obj), before, subresource, [])
    return [f"{cause.field}: {cause.message}" for cause in causes]


def pod(*containers, **spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


C = {"name": "c", "image": "i"}


def test_a_bad_pod_is_refused_as_recorded() -> None:
    second = {"name": "A", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}
    strategy = strategy_of("v1", "Pod")
    causes = strategy.validate(strategy.default(pod({"name": "A"}, second)), None, "", [])
    assert summary(causes) == (
        f'[spec.containers[0].name: Invalid value: "A": {LABEL}, '
        "spec.containers[0].image: Required value, "
        f'spec.containers[1].name: Invalid value: "A": {LABEL}, '
        "spec.containers[1].image: Required value, "
        'spec.containers[1].resources.requests: Invalid value: "2": must be less than or equal to '
        "cpu limit of 1, "
        'spec.containers[1].name: Duplicate value: "A"]'
    )


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        (
            {"restartPolicy": "Maybe"},
            'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
            "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
        ),
        (
            {"containers": [{**C, "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]},
            'spec.containers[0].volumeMounts[0].name: Not found: "x"',
        ),
        (
            {"containers": [{**C, "ports": [{"containerPort": 70000}]}]},
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            {"containers": [{**C, "env": [{"name": "A=B"}]}]},
            "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='",
        ),
        (
            {"containers": [{**C, "env": [{"name": "A", "valueFrom": {}}]}]},
            'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`',
        ),
        (
            {"containers": [{**C, "livenessProbe": {}}]},
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            {"containers": [{**C, "resources": {"limits": {"gpu": "1"}}}]},
            'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
        ),
        ({"initContainers": [C]}, 'spec.initContainers[0].name: Duplicate value: "c"'),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            {
                "tolerations": [
                    {"effect": "NoSchedule", "operator": "Exists", "tolerationSeconds": 1}
                ]
            },
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ),
    ],
)
def test_what_is_wrong_with_a_pod_is_named(spec, complaint) -> None:
    assert complaint in said("Pod", {"spec": {"containers": [C]} | spec})


def test_a_pod_spec_is_for_life_except_for_images_and_tolerations() -> None:
    new_image = pod({**C, "image": "j"}, tolerations=[{"operator": "Exists"}])
    assert said("Pod", new_image, pod(C)) == []
    (complaint,) = said("Pod", pod({**C, "command": ["x"]}), pod(C))
    assert complaint.startswith(
        "spec: Forbidden: pod updates may not change fields other than "
        "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
        "`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
        "negative)\n"
    )
    assert '+   "command": [' in complaint
    assert said("Pod", pod(C, {**C, "name": "d"}), pod(C)) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]
    tolerant = pod(C, tolerations=[{"key": "a", "operator": "Exists"}])
    assert said("Pod", pod(C), tolerant) == [
        (
            "spec.tolerations: Forbidden: existing toleration can not be modified except its "
            "tolerationSeconds"
        )
    ]
    assert said("Pod", pod(C, activeDeadlineSeconds=9), pod(C, activeDeadlineSeconds=5)) == [
        "spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value"
    ]


def test_the_resize_subresource_changes_resources_only() -> None:
    def sized(cpu, **more):
        return pod({**C, "resources": {"requests": {"cpu": cpu}}, **more})

    assert said("Pod", sized("2"), sized("1"), subresource="resize") == []
    assert said("Pod", sized("2", image="j"), sized("1"), subresource="resize") == [
        "spec: Forbidden: only cpu and memory resources are mutable"
    ]
    assert said("Pod", pod(C), sized("1"), subresource="resize")[-1].endswith(
        "Pod QOS Class may not change as a result of resizing"
    )


def test_ephemeral_containers_come_and_never_go() -> None:
    with_one = pod(C, ephemeralContainers=[{"name": "d", "image": "busybox"}])
    assert said("Pod", with_one, pod(C), subresource="ephemeralcontainers") == []
    assert (
        "may not be removed" in said("Pod", pod(C), with_one, subresource="ephemeralcontainers")[0]
    )


def service(**spec):
    return {"metadata": {"name": "s"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({}, "spec.ports: Required value"),
        ({"ports": [{"port": 80}, {"port": 81}]}, "spec.ports[0].name: Required value"),
        (
            {"ports": [{"port": 0}]},
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            {"type": "Odd", "ports": [{"port": 80}]},
            'spec.type: Unsupported value: "Odd": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
        ),
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30000}]},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
            'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}',
        ),
    ],
)
def test_what_is_wrong_with_a_service_is_named(spec, complaint) -> None:
    assert complaint in said("Service", service(**spec))


def test_the_address_of_a_service_is_for_life() -> None:
    def at(address):
        return service(ports=[{"port": 80}], clusterIP=address, clusterIPs=[address])

    assert said("Service", at("10.0.0.2"), at("10.0.0.1")) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'
    ]


def job(**spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [C]}}
    return {
        "metadata": {"name": "j"},
        "spec": {"manualSelector": True, "selector": {}, "template": template} | spec,
    }


def test_a_job_says_how_its_pods_restart() -> None:
    template = {"spec": {"containers": [C]}}
    assert (
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
        in said("Job", job(template=template), api_version="batch/v1")
    )


def test_the_template_of_a_job_is_for_life_unless_it_is_suspended() -> None:
    other = {"spec": {"restartPolicy": "Never", "containers": [C], "nodeSelector": {"a": "b"}}}
    assert said("Job", job(template=other), job(), "batch/v1") == [
        "spec.template: Invalid value: field is immutable"
    ]
    assert said("Job", job(template=other, suspend=False), job(suspend=True), "batch/v1") == []
    assert (
        said(
            "Job", job(parallelism=5, completions=1), job(parallelism=1, completions=1), "batch/v1"
        )
        == []
    )
    assert said("Job", job(completions=2), job(completions=1), "batch/v1") == [
        "spec.completions: Invalid value: 2: field is immutable"
    ]


def deployment(labels=None, **spec):
    template = {"metadata": {"labels": labels or {"a": "b"}}, "spec": {"containers": [C]}}
    return {
        "metadata": {},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template} | spec,
    }


def test_a_deployment_selects_its_own_template() -> None:
    assert said("Deployment", deployment(), api_version="apps/v1") == []
    assert said("Deployment", deployment({"x": "y"}), api_version="apps/v1") == [
        (
            'spec.template.metadata.labels: Invalid value: {"x":"y"}: `selector` does not match '
            "template `labels`"
        )
    ]
    assert said("Deployment", deployment(selector=None), api_version="apps/v1") == [
        "spec.selector: Required value",
        (
            'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match '
            "template `labels`"
        ),
    ]
    other = deployment({"x": "y"}, selector={"matchLabels": {"x": "y"}})
    assert said("Deployment", other, deployment(), "apps/v1") == [
        'spec.selector: Invalid value: {"matchLabels":{"x":"y"}}: field is immutable'
    ]


def test_config_maps_have_proper_keys_and_a_size() -> None:
    assert said("ConfigMap", {"data": {"a/b": ""}})[0].startswith(
        'data[a/b]: Invalid value: "a/b": a valid config key must consist of'
    )
    assert said("ConfigMap", {"data": {"a": "x" * 1_048_577}}) == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]
    frozen = {"data": {"a": "1"}, "immutable": True}
    assert said("ConfigMap", {"data": {"a": "2"}, "immutable": True}, frozen) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]


def test_secrets_keep_their_type_and_hold_what_it_needs() -> None:
    assert said("Secret", {"type": "a"}, {"type": "b"}) == [
        'type: Invalid value: "a": field is immutable'
    ]
    assert said("Secret", {"type": "kubernetes.io/tls"}) == [
        "data[tls.crt]: Required value",
        "data[tls.key]: Required value",
    ]


def test_events_are_refused_as_recorded() -> None:
    causes = strategy_of("events.k8s.io/v1", "Event").validate(
        {"metadata": {"name": "e2"}}, None, "", []
    )
    assert summary(causes) == (
        '[eventTime: Required value, type: Invalid value: "": has invalid value: ]'
    )
    core = {"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}}
    assert said("Event", core) == [
        'involvedObject.namespace: Invalid value: "b": does not match event.namespace'
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "complaint"),
    [
        (
            "rbac.authorization.k8s.io/v1",
            "Role",
            {"rules": [{}]},
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {"kind": "X", "name": "n"}},
            'roleRef.kind: Unsupported value: "X": supported values: "Role", "ClusterRole"',
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            {"spec": {}},
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            {"spec": {}},
            "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            {"value": 2_000_000_000},
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["x"]}]},
            'endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
            'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": 0}},
            "spec.maxReplicas: Invalid value: 0: must be greater than 0",
        ),
        ("batch/v1", "CronJob", {"spec": {"jobTemplate": {}}}, "spec.schedule: Required value"),
    ],
)
def test_what_is_wrong_with_a_smaller_kind_is_named(api_version, kind, obj, complaint) -> None:
    assert complaint in said(kind, {"metadata": {"name": "x"}, **obj}, api_version=api_version)


def test_kinds_without_rules_are_accepted() -> None:
    assert said("ServiceAccount", {"metadata": {}}) == []
