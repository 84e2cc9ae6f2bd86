"""M20 to M24: built-in kinds with their defaults and limits, tables, subresources, Events."""

from __future__ import annotations

from typing import Any

import pytest

from support.contract import JSON_PATCH, STRATEGIC, TABLE, Widgets, config_map, pod, widget
from support.recording import Recording

CONTAINER = {"name": "c", "image": "i"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
DRY = {"dryRun": "All"}


def container(**fields: Any) -> dict[str, Any]:
    return {**CONTAINER, **fields}


# ── M20: defaults and validation ─────────────────────────────────────────────────────────
GOOD_PODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ports": {"containers": [container(ports=[{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP", "name": "u"}])]},
    "resources": {"containers": [container(resources={"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": 1}})]},
    "guaranteed": {"containers": [container(resources={"limits": {"cpu": "0.5", "memory": "1e3"}})]},
    "probes": {"containers": [container(livenessProbe={"exec": {"command": ["x"]}}, readinessProbe={"httpGet": {"port": 80}}, startupProbe={"tcpSocket": {"port": "p"}}, ports=[{"containerPort": 80, "name": "p"}])]},
    "lifecycle": {"containers": [container(lifecycle={"preStop": {"httpGet": {"port": 1, "path": "/x"}}})]},
    "init": {"initContainers": [container(name="i", image="busybox:1.36")], "restartPolicy": "Never"},
    "sidecar": {"initContainers": [container(name="i", restartPolicy="Always")]},
    "volumes": {
        "volumes": [
            {"name": "e", "emptyDir": {}},
            {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Ki"}},
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "h", "hostPath": {"path": "/tmp"}},
            {"name": "p", "persistentVolumeClaim": {"claimName": "p"}},
            {"name": "d", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "j", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
        "containers": [container(volumeMounts=[{"name": "e", "mountPath": "/e"}])],
    },
    "env": {"containers": [container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}, {"name": "C"}], envFrom=[{"configMapRef": {"name": "x"}}])]},
    "security": {"securityContext": {"runAsUser": 1}, "containers": [container(securityContext={"privileged": True})]},
    "affinity": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}, "tolerations": [{"key": "x", "operator": "Exists"}], "nodeSelector": {"a": "b"}},
    "host": {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet", "containers": [container(ports=[{"containerPort": 80}])]},
    "image": {"containers": [container(image="x:1.0"), container(name="d", image="x@sha256:" + "0" * 64), container(name="e", image="r.io:5000/x")]},
    "account": {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5},
    "spread": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
    "gates": {"schedulingGates": [{"name": "ex.com/g"}], "readinessGates": [{"conditionType": "ex.com/r"}]},
}  # fmt: skip

BAD_PODS: dict[str, dict[str, Any]] = {
    "none": {"containers": []},
    "names": {"containers": [{"name": "A"}, {"name": "A", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}]},
    "policy": {"restartPolicy": "Sometimes"},
    "dns": {"dnsPolicy": "Nope"},
    "pull": {"containers": [container(imagePullPolicy="Nope")]},
    "port": {"containers": [container(ports=[{"containerPort": 0}, {"containerPort": 70000}, {"containerPort": 1, "protocol": "X"}, {"containerPort": 2, "name": "Bad_"}])]},
    "double": {"containers": [container(ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}])]},
    "env": {"containers": [container(env=[{"name": ""}, {"name": "a=b"}, {"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}])]},
    "quantity": {"containers": [container(resources={"requests": {"cpu": "-1"}})]},
    "words": {"containers": [container(resources={"requests": {"cpu": "lots"}})]},
    "unit": {"containers": [container(resources={"limits": {"nonsense": "1"}})]},
    "gpu": {"containers": [container(resources={"requests": {"nvidia.com/gpu": 1}})]},
    "mount": {"containers": [container(volumeMounts=[{"name": "nothing", "mountPath": ""}])]},
    "volume": {"volumes": [{"name": "v"}, {"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}, "hostPath": {"path": "/"}}]},
    "grace": {"terminationGracePeriodSeconds": -1},
    "deadline": {"activeDeadlineSeconds": 0},
    "node": {"nodeName": "Bad_Node"},
    "selector": {"nodeSelector": {"bad key": "x"}},
    "toleration": {"tolerations": [{"operator": "Nope"}, {"key": "a", "operator": "Exists", "value": "b"}, {"effect": "X"}]},
    "probe": {"containers": [container(livenessProbe={"exec": {"command": ["x"]}, "httpGet": {"port": 1}}, readinessProbe={"periodSeconds": -1, "exec": {"command": []}})]},
    "hostname": {"hostname": "Bad_", "subdomain": "Bad_"},
    "account": {"serviceAccountName": "Bad_"},
    "priority": {"priorityClassName": "nope"},
    "init": {"initContainers": [container(name="c")]},
    "ephemeral": {"ephemeralContainers": [container(name="e")]},
}  # fmt: skip


@pytest.mark.parametrize("name", list(GOOD_PODS))
async def test_m20_pods_get_their_defaults(recording: Recording, name: str) -> None:
    await recording.create(recording.path("pods"), pod(name, **GOOD_PODS[name]), query=DRY)


async def test_m20_bad_pods_are_refused(recording: Recording) -> None:
    for name, spec in BAD_PODS.items():
        await recording.create(recording.path("pods"), pod(name, **spec), query=DRY)


async def test_m20_pods_change_little(recording: Recording) -> None:
    body = pod("p", containers=[container(resources={"requests": {"cpu": "1"}})], nodeName="n1")
    await recording.made(recording.path("pods"), body)
    where = recording.path("pods", "p")
    for spec in (
        {"containers": [container(image="i:2")]},
        {"containers": [container(command=["x"])]},
        {"activeDeadlineSeconds": 10},
        {"activeDeadlineSeconds": 20},
        {"tolerations": [{"key": "x", "operator": "Exists"}]},
        {"terminationGracePeriodSeconds": 1},
        {"nodeName": "n2"},
        {"restartPolicy": "Never"},
        {"containers": [container(resources={"requests": {"cpu": "2"}})]},
    ):
        answer = await recording.patch(where, {"spec": spec}, STRATEGIC)
        if answer.status == 422:  # the rest of the message is Go's own diff
            recording.retell(answer.causes)
    await recording.patch(where, {"status": {"phase": "Failed"}})
    await recording.patch(where, {"metadata": {"labels": {"a": "b"}}})


SERVICES: dict[str, dict[str, Any]] = {
    "plain": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    "headless": {"clusterIP": "None", "ports": [{"port": 80, "targetPort": "http"}]},
    "several": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}]},
    "nodeport": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30999}]},
    "external": {"type": "ExternalName", "externalName": "example.com"},
    "balancer": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30998}]},
    "noports": {"selector": {"a": "b"}},
    "headless-noports": {"clusterIP": "None"},
    "badport": {"ports": [{"port": 0}, {"port": 70000, "name": "x"}]},
    "unnamed": {"ports": [{"port": 1}, {"port": 2}]},
    "double": {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]},
    "badtype": {"type": "Nope", "ports": [{"port": 1}]},
    "badip": {"clusterIP": "1.2.3.4.5", "ports": [{"port": 1}]},
    "outside": {"clusterIP": "192.0.2.1", "ports": [{"port": 1}]},
    "affinity": {"sessionAffinity": "ClientIP", "ports": [{"port": 1}]},
    "publish": {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": [{"port": 1}]},
}


async def test_m20_services(recording: Recording) -> None:
    for name, spec in SERVICES.items():
        await recording.create(
            recording.path("services"), {"metadata": {"name": name}, "spec": spec}, query=DRY
        )
    await recording.create(
        recording.path("services"), {"metadata": {"name": "1x"}, "spec": SERVICES["plain"]}
    )
    await recording.made(
        recording.path("services"), {"metadata": {"name": "s"}, "spec": SERVICES["plain"]}
    )
    where = recording.path("services", "s")
    await recording.patch(where, {"spec": {"clusterIP": "None"}})
    await recording.patch(where, {"spec": {"ports": [{"port": 81}]}})
    await recording.patch(where, {"spec": {"type": "ExternalName", "externalName": "a.b"}})
    await recording.delete(where)


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


async def test_m20_jobs(recording: Recording) -> None:
    where = recording.path("jobs", api="/apis/batch/v1")
    for spec in (
        {},
        {"suspend": True, "parallelism": 3},
        {"completions": 4, "parallelism": 2, "completionMode": "Indexed"},
        {"ttlSecondsAfterFinished": 5, "activeDeadlineSeconds": 9, "backoffLimit": 0},
        {"template": TEMPLATE},
        {"parallelism": -1, "completions": -1, "backoffLimit": -1, "ttlSecondsAfterFinished": -1},
        {"template": {"spec": {"containers": []}}},
        {"completionMode": "Nope"},
        {"selector": {"matchLabels": {"a": "b"}}},
        {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}},
    ):  # fmt: skip
        await recording.create(where, job(**spec), query=DRY)


async def test_m20_a_job_changes_little(recording: Recording) -> None:
    where = recording.path("jobs", api="/apis/batch/v1")
    async with recording.silent():
        await recording.made(where, job(suspend=True))
    for spec in (
        {"parallelism": 2},
        {"completions": 3},
        {"backoffLimit": 3},
        {"selector": {"matchLabels": {"a": "b"}}},
        {"template": {"spec": {"containers": [container(image="z")]}}},
        {"completionMode": "Indexed"},
    ):
        answer = await recording.patch(f"{where}/j", {"spec": spec}, STRATEGIC)
        recording.retell(answer.causes if answer.status != 200 else "fine")


OTHERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "deployment": ("apps/v1", "deployments", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}),
    "deployment-selector": ("apps/v1", "deployments", {"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": TEMPLATE}}),
    "deployment-none": ("apps/v1", "deployments", {"spec": {"template": TEMPLATE}}),
    "deployment-strategy": ("apps/v1", "deployments", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, "replicas": -1, "strategy": {"type": "Recreate", "rollingUpdate": {}}}}),
    "replicaset": ("apps/v1", "replicasets", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}),
    "statefulset": ("apps/v1", "statefulsets", {"spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}),
    "daemonset": ("apps/v1", "daemonsets", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}),
    "cronjob": ("batch/v1", "cronjobs", {"spec": {"schedule": "* * * * *", "jobTemplate": job()}}),
    "cronjob-bad": ("batch/v1", "cronjobs", {"spec": {"schedule": "often", "timeZone": "Nowhere/X", "concurrencyPolicy": "Z", "jobTemplate": job()}}),
    "lease": ("coordination.k8s.io/v1", "leases", {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.123456Z", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 0}}),
    "lease-bad": ("coordination.k8s.io/v1", "leases", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
    "ingress": ("networking.k8s.io/v1", "ingresses", {"spec": {"rules": [{"host": "a.b", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
    "ingress-bad": ("networking.k8s.io/v1", "ingresses", {"spec": {"rules": [{"host": "A_b", "http": {"paths": [{"path": "x", "backend": {}}]}}]}}),
    "networkpolicy": ("networking.k8s.io/v1", "networkpolicies", {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}}),
    "role": ("rbac.authorization.k8s.io/v1", "roles", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    "role-bad": ("rbac.authorization.k8s.io/v1", "roles", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
    "rolebinding": ("rbac.authorization.k8s.io/v1", "rolebindings", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}, {"kind": "User", "name": "u"}]}),
    "rolebinding-bad": ("rbac.authorization.k8s.io/v1", "rolebindings", {"roleRef": {"kind": "Nope", "name": ""}, "subjects": [{"kind": "Nope", "name": ""}]}),
    "endpointslice": ("discovery.k8s.io/v1", "endpointslices", {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}),
    "endpointslice-bad": ("discovery.k8s.io/v1", "endpointslices", {"addressType": "IPv9", "endpoints": [{"addresses": []}]}),
    "poddisruptionbudget": ("policy/v1", "poddisruptionbudgets", {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
    "hpa": ("autoscaling/v2", "horizontalpodautoscalers", {"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}}),
}  # fmt: skip

CORE: dict[str, tuple[str, dict[str, Any]]] = {
    "serviceaccount": ("serviceaccounts", {}),
    "secret": ("secrets", {"stringData": {"a": "b"}, "data": {"c": "ZA=="}}),
    "token": ("secrets", {"type": "kubernetes.io/service-account-token"}),
    "resourcequota": (
        "resourcequotas",
        {"spec": {"hard": {"cpu": "1000m", "pods": "5", "requests.memory": "1024Mi"}}},
    ),
    "resourcequota-bad": (
        "resourcequotas",
        {"spec": {"hard": {"cpu": "-1", "nonsense": "1"}, "scopes": ["Nope"]}},
    ),
    "limitrange": (
        "limitranges",
        {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    ),
    "pvc": (
        "persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "pvc-bad": ("persistentvolumeclaims", {"spec": {"accessModes": ["Nope"]}}),
    "endpoints": (
        "endpoints",
        {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]},
    ),
    "configmap": ("configmaps", {"binaryData": {"b": "AAEC"}, "data": {"k": "v"}}),
}


@pytest.mark.parametrize("name", list(OTHERS))
async def test_m20_other_kinds(recording: Recording, name: str) -> None:
    api, plural, body = OTHERS[name]
    where = recording.path(plural, api=f"/apis/{api}")
    await recording.create(where, {"metadata": {"name": name}, **body}, query=DRY)


@pytest.mark.parametrize("name", list(CORE))
async def test_m20_core_kinds(recording: Recording, name: str) -> None:
    plural, body = CORE[name]
    await recording.create(recording.path(plural), {"metadata": {"name": name}, **body}, query=DRY)


async def test_m20_cluster_kinds(recording: Recording) -> None:
    for where, body in (
        ("/api/v1/namespaces", {"metadata": {"name": "a.b"}}),
        ("/api/v1/namespaces", {"metadata": {"name": "n"}}),
        ("/api/v1/nodes", {"metadata": {"name": "n"}}),
        ("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Nope"}]}}),
        ("/api/v1/persistentvolumes", {"metadata": {"name": "n"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "n"}, "value": 5}),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "system-n"}, "value": 5}),
        ("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "n"}, "provisioner": "x.y/z"}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "n"}, "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "n"}, "roleRef": {"kind": "ClusterRole", "name": "r"}}),
        ("/apis/networking.k8s.io/v1/ingressclasses", {"metadata": {"name": "n"}, "spec": {"controller": "x.y/z"}}),
    ):  # fmt: skip
        await recording.create(where, body, query=DRY)


async def test_m20_quantities_are_canonical(recording: Recording) -> None:
    for text in (
        "1000m",
        "1024Mi",
        "0.5",
        "1e3",
        "1.5Gi",
        "100u",
        "1Ki",
        "0",
        "12E",
        "1.0",
        "500M",
        "1_0",
        " 1",
        "",
    ):
        requests = {"cpu": text, "memory": text}
        body = pod("p", containers=[container(resources={"requests": requests})])
        answer = await recording.create(recording.path("pods"), body, query=DRY)
        if answer.status == 201:
            recording.retell(answer.body["spec"]["containers"][0]["resources"])
    for value in (1, 0.5, 1000000000, 0.0001):
        body = pod("p", containers=[container(resources={"limits": {"cpu": value}})])
        answer = await recording.create(recording.path("pods"), body, query=DRY)
        if answer.status == 201:
            recording.retell(answer.body["spec"]["containers"][0]["resources"])


# ── M21: field validation and dry run ────────────────────────────────────────────────────
async def test_m21_field_validation(recording: Recording, recorded_widgets: Widgets) -> None:
    unknown = config_map("a") | {"bogus": 1, "other": {"x": 1}}
    doubled = (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}'
    )
    for validation in ("Strict", "Warn", "Ignore", "", "X"):
        query = {"fieldValidation": validation, **DRY}
        await recording.create(recording.path("configmaps"), unknown, query=query)
        await recording.create(recording.path("configmaps"), doubled, query=query)
        meta = {"metadata": {"name": "m", "nonsense": 1, "ownerReferences": [{"x": 1}]}}
        await recording.create(recording.path("secrets"), meta, query=query)
        body = pod("p", containers=[container(ports=[{"containerPort": 1, "hst": 2}])], spce=1)
        await recording.create(recording.path("pods"), body, query=query)
    await recording.create(
        recorded_widgets.path(), widget("w", bogus=1), query={"fieldValidation": "Strict", **DRY}
    )
    await recording.made(recording.path("configmaps"), config_map("real"))
    where = recording.path("configmaps", "real")
    for validation in ("Strict", "Warn", "Ignore"):
        query = {"fieldValidation": validation, **DRY}
        await recording.replace(where, config_map("real") | {"bogus": 1}, query=query)
        await recording.patch(where, {"bogus": 1}, query=query)
        await recording.patch(where, {"bogus": 1}, STRATEGIC, query=query)
        await recording.patch(
            where, [{"op": "add", "path": "/bogus", "value": 1}], JSON_PATCH, query=query
        )


async def test_m21_dry_runs_store_nothing(recording: Recording) -> None:
    await recording.create(recording.path("configmaps"), config_map("dry"), query=DRY)
    await recording.get(recording.path("configmaps", "dry"))
    await recording.made(recording.path("configmaps"), config_map("a"))
    where = recording.path("configmaps", "a")
    await recording.patch(where, {"data": {"k": "2"}}, query=DRY)
    await recording.replace(where, config_map("a", {"k": "3"}), query=DRY)
    await recording.delete(where, query=DRY)
    await recording.get(where)
    for verb in ("create", "replace", "patch", "delete"):
        target = recording.path("configmaps") if verb == "create" else where
        await getattr(recording, verb)(target, config_map("a"), query={"dryRun": "yes"})


# ── M22: tables ──────────────────────────────────────────────────────────────────────────
TABLES = [
    "/api/v1/{}/" + plural
    for plural in (
        "pods", "services", "events", "configmaps", "secrets", "serviceaccounts", "endpoints",
        "persistentvolumeclaims", "resourcequotas", "limitranges", "replicationcontrollers",
        "podtemplates",
    )
] + [
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/persistentvolumes",
    "/apis/batch/v1/{}/jobs",
    "/apis/batch/v1/{}/cronjobs",
    "/apis/apps/v1/{}/deployments",
    "/apis/apps/v1/{}/replicasets",
    "/apis/apps/v1/{}/statefulsets",
    "/apis/apps/v1/{}/daemonsets",
    "/apis/discovery.k8s.io/v1/{}/endpointslices",
    "/apis/networking.k8s.io/v1/{}/ingresses",
    "/apis/networking.k8s.io/v1/{}/networkpolicies",
    "/apis/networking.k8s.io/v1/ingressclasses",
    "/apis/coordination.k8s.io/v1/{}/leases",
    "/apis/rbac.authorization.k8s.io/v1/{}/roles",
    "/apis/rbac.authorization.k8s.io/v1/{}/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/policy/v1/{}/poddisruptionbudgets",
    "/apis/autoscaling/v2/{}/horizontalpodautoscalers",
    "/apis/events.k8s.io/v1/{}/events",
]  # fmt: skip


async def test_m22_every_kind_has_its_columns(recording: Recording) -> None:
    for template in TABLES:
        where = template.format(f"namespaces/{recording.namespace}")
        answer = await recording.get(where, accept=TABLE)
        if answer.status == 200:
            recording.retell(
                [
                    [one["name"], one["type"], one["format"], one["priority"]]
                    for one in answer.body["columnDefinitions"]
                ]
            )


async def test_m22_rows_of_pods(recording: Recording) -> None:
    where = recording.path("pods")
    states: dict[str, dict[str, Any]] = {
        "fresh": {},
        "running": {
            "phase": "Running",
            "podIP": "1.1.1.1",
            "podIPs": [{"ip": "1.1.1.1"}],
            "containerStatuses": [{"name": "c", "ready": True, "restartCount": 2, "image": "i", "imageID": "", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}}],
        },
        "waiting": {"phase": "Pending", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
        "crashing": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 5, "image": "i", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
        "done": {"phase": "Succeeded", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]},
        "killed": {"phase": "Failed", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
        "signal": {"phase": "Failed", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": {"terminated": {"exitCode": 0, "signal": 9}}}]},
        "evicted": {"phase": "Failed", "reason": "Evicted"},
        "ready": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip
    async with recording.silent():
        for name, status in states.items():
            await recording.made(where, pod(name, nodeName="n1"))
            if status:
                answer = await recording.patch(
                    recording.path("pods", name, "status"), {"status": status}
                )
                assert answer.status == 200, answer.text
        await recording.made(
            where, pod("init", nodeName="n1", initContainers=[container(name="i")])
        )
        await recording.made(where, pod("ending", nodeName="n1"))
        await recording.delete(recording.path("pods", "ending"))
    answer = await recording.get(where, accept=TABLE)
    rows = {row["cells"][0]: row["cells"] for row in answer.body["rows"]}
    for cells in rows.values():
        cells[3] = str(cells[3]).partition("(")[0]
        cells[4] = "<age>"
    recording.retell(rows)


async def test_m22_rows_of_other_kinds(recording: Recording) -> None:
    async def row(path: str, body: dict[str, Any], status: dict[str, Any] | None = None) -> None:
        async with recording.silent():
            made = await recording.made(path, body)
            name = made["metadata"]["name"]
            if status:
                answer = await recording.patch(f"{path}/{name}/status", {"status": status})
                assert answer.status == 200, answer.text
        await recording.get(f"{path}/{name}", accept=TABLE, query={"includeObject": "None"})
        body = recording.exchanges[-1]["body"]
        recording.retell(body.get("rows", body))

    recording.expect_generated("x-")
    for name in ("plain", "headless", "several", "external"):
        await row(recording.path("services"), {"metadata": {"name": name}, "spec": SERVICES[name]})
    await row(recording.path("configmaps"), config_map("c", {"a": "1", "b": "2"}))
    await row(recording.path("secrets"), {"metadata": {"name": "s"}, "stringData": {"a": "1"}})
    await row(recording.path("serviceaccounts"), {"metadata": {"name": "s"}})
    for name in ("lease", "ingress", "networkpolicy", "rolebinding", "endpointslice", "role"):
        api, plural, body = OTHERS[name]
        await row(recording.path(plural, api=f"/apis/{api}"), {"metadata": {"name": name}, **body})
    suspended = job(suspend=True)
    async with recording.silent():
        await recording.made(recording.path("jobs", api="/apis/batch/v1"), suspended)
    cron = {
        "metadata": {"name": "c"},
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": job()},
    }
    await row(recording.path("cronjobs", api="/apis/batch/v1"), cron)
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1"}}}
    async with recording.silent():
        await recording.made(recording.path("resourcequotas"), quota)


# ── M23: subresources of Pods ────────────────────────────────────────────────────────────
async def test_m23_binding_status_eviction(recording: Recording) -> None:
    await recording.made(recording.path("pods"), pod("p", schedulerName="nobody"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await recording.create(recording.path("pods", "p", "binding"), binding)
    await recording.create(recording.path("pods", "p", "binding"), binding)
    await recording.create(
        recording.path("pods", "zz", "binding"), binding | {"metadata": {"name": "zz"}}
    )
    await recording.create(recording.path("pods", "p", "binding"), {"metadata": {"name": "p"}})
    await recording.get(recording.path("pods", "p"))
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await recording.patch(recording.path("pods", "p", "status"), status)
    await recording.patch(recording.path("pods", "p", "status"), {"spec": {"nodeName": "other"}})
    await recording.get(recording.path("pods", "p", "status"))
    await recording.get(recording.path("pods", "p", "nonsense"))
    await recording.get(recording.path("pods", "zz", "log"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await recording.create(recording.path("pods", "p", "eviction"), eviction)
    await recording.get(recording.path("pods", "p"))
    await recording.create(
        recording.path("pods", "zz", "eviction"), eviction | {"metadata": {"name": "zz"}}
    )


async def test_m23_resize_and_ephemeral_containers(recording: Recording) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    body = pod("p", containers=[container(resources=resources)], schedulerName="nobody")
    await recording.made(recording.path("pods"), body)
    where = recording.path("pods", "p", "resize")
    patch = {"spec": {"containers": [container(resources={"requests": {"cpu": "2"}})]}}
    await recording.patch(where, patch, STRATEGIC)
    await recording.get(where)
    image = {"spec": {"containers": [container(image="other")]}}
    answer = await recording.patch(where, image, STRATEGIC)
    recording.retell(answer.causes if answer.status != 200 else answer.body["spec"])
    extra = {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}
    where = recording.path("pods", "p", "ephemeralcontainers")
    await recording.patch(where, extra, STRATEGIC)
    await recording.patch(
        where, {"spec": {"ephemeralContainers": [{"name": "e", "$patch": "delete"}]}}, STRATEGIC
    )
    await recording.get(where)


async def test_m23_scale(recording: Recording, recorded_widgets: Widgets) -> None:
    await recorded_widgets.made("a")
    where = recorded_widgets.path("a", "scale")
    await recording.get(where)
    await recording.patch(where, {"spec": {"replicas": 4}})
    scale = (await recording.get(where)).body
    await recording.replace(where, scale | {"spec": {"replicas": 3}})
    await recording.replace(where, scale | {"spec": {"replicas": 2}})
    await recording.patch(where, {"spec": {"replicas": -1}})
    await recording.patch(where, {"spec": {"replicas": "x"}})
    await recording.patch(where, {"spec": {"replicas": 11}})
    await recording.get(recorded_widgets.path("a"))
    await recording.get(recorded_widgets.path("zz", "scale"))


async def test_m23_reviews(recording: Recording) -> None:
    api = "/apis/authorization.k8s.io/v1"
    wants = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    await recording.create(f"{api}/selfsubjectaccessreviews", wants)
    await recording.create(f"{api}/selfsubjectaccessreviews", {"spec": {}})
    path = {"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}}
    await recording.create(f"{api}/selfsubjectaccessreviews", path)
    nobody: dict[str, Any] = {
        "spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    }
    await recording.create(f"{api}/subjectaccessreviews", nobody)
    await recording.create(f"{api}/subjectaccessreviews", {"spec": {}})
    local = {**nobody, "metadata": {"namespace": recording.namespace}}
    local["spec"] = {
        **local["spec"],
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": recording.namespace},
    }
    await recording.create(recording.path("localsubjectaccessreviews", api=api), local)
    token = {"spec": {"token": "nonsense"}}
    answer = await recording.create("/apis/authentication.k8s.io/v1/tokenreviews", token)
    recording.retell(answer.body["status"].get("authenticated", False))


# ── M24: Events ──────────────────────────────────────────────────────────────────────────
async def test_m24_events_of_both_groups(recording: Recording) -> None:
    old, new = recording.path("events"), recording.path("events", api="/apis/events.k8s.io/v1")
    involved = {
        "kind": "Pod",
        "namespace": recording.namespace,
        "name": "p",
        "uid": "u1",
        "apiVersion": "v1",
    }
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}
    await recording.create(
        old,
        {"metadata": {"name": "e1"}, "involvedObject": involved, "reason": "R", "message": "m", "type": "Normal", "count": 1, "source": {"component": "c"}, **times},
    )  # fmt: skip
    await recording.get(f"{new}/e1")
    body = {
        "metadata": {"name": "e2"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "ex.com/c",
        "reportingInstance": "i",
        "action": "Act",
        "reason": "R",
        "note": "n",
        "regarding": involved,
        "type": "Warning",
    }
    await recording.create(new, body)
    await recording.get(f"{old}/e2")
    await recording.create(new, {**body, "metadata": {"name": "e3"}, "eventTime": None, "type": ""})
    await recording.create(
        new,
        {**body, "metadata": {"name": "e4"}, "reportingController": "", "action": "", "reason": ""},
    )
    await recording.create(new, {**body, "metadata": {"name": "e5"}, "note": "x" * 1025})
    await recording.create(
        old, {"metadata": {"name": "e6"}, "involvedObject": {**involved, "namespace": "elsewhere"}}
    )
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    await recording.patch(f"{new}/e2", series, STRATEGIC)
    await recording.patch(f"{old}/e1", {"count": 2}, STRATEGIC)
    await recording.get(old, query={"fieldSelector": "involvedObject.name=p,type=Warning"})
    await recording.get(new, query={"fieldSelector": "regarding.name=p,type=Warning"})
    await recording.get(new, query={"fieldSelector": "involvedObject.name=p"})
    await recording.delete(f"{new}/e2")
    await recording.get(f"{old}/e2")
