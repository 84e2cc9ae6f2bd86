"""Valid requests to start from: every served kind, every verb, patch type and subresource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "busybox",
            "command": ["sleep", "1"],
            "env": [{"name": "A", "value": "b"}],
            "ports": [{"containerPort": 80, "name": "http"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/data", "subPath": "x"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
            "securityContext": {"runAsUser": 1000},
        }
    ],
    "volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}}],
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}
LABELS = {"app": "fuzz"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
SELECTOR = {"matchLabels": LABELS}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
SUBJECTS = [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]
ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0},
                "name": {"type": "string", "pattern": "^[a-z]+$"},
                "items": {
                    "type": "array",
                    "items": {"type": "string"},
                    "x-kubernetes-list-type": "set",
                },
            },
            "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too large"}],
        }
    },
}

BODIES: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"k": "v"}},
    "Secret": {"type": "Opaque", "data": {"k": "dg=="}},
    "Pod": {"spec": POD_SPEC},
    "PodTemplate": {"template": TEMPLATE},
    "Service": {"spec": {"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]}},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "EndpointSlice": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"port": 80}],
    },
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolume": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/tmp/fuzz"},
        }
    },
    "Deployment": {"spec": {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}},
    "ReplicaSet": {"spec": {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}},
    "StatefulSet": {"spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE}},
    "DaemonSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "Job": {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}},
    "CronJob": {
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}},
        }
    },
    "Role": {"rules": RULES},
    "ClusterRole": {"rules": RULES},
    "RoleBinding": {"roleRef": ROLE_REF, "subjects": SUBJECTS},
    "ClusterRoleBinding": {"roleRef": ROLE_REF, "subjects": SUBJECTS},
    "PodDisruptionBudget": {"spec": {"minAvailable": "50%", "selector": SELECTOR}},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "ResourceQuota": {"spec": {"hard": {"pods": "1000"}}},
    "Lease": {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}},
    "Ingress": {
        "spec": {
            "rules": [
                {
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "s", "port": {"number": 80}}},
                            }
                        ]
                    }
                }
            ]
        }
    },
    "NetworkPolicy": {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}},
    "PriorityClass": {"value": 10},
    "RuntimeClass": {"handler": "runc"},
    "IngressClass": {"spec": {"controller": "example.com/none"}},
    "ControllerRevision": {"revision": 1, "data": {"a": "b"}},
    "ReplicationController": {"spec": {"replicas": 1, "selector": LABELS, "template": TEMPLATE}},
    "HorizontalPodAutoscaler": {
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        }
    },
    "StorageClass": {"provisioner": "example.com/none"},
    "CustomResourceDefinition": {
        "spec": {
            "group": "fuzz.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                }
            ],
        }
    },
    "Event": {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "fuzz"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "note": "m",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "fuzz"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "x/y",
        "reportingComponent": "x/y",
        "reportingInstance": "z",
        "action": "a",
    },
    "SelfSubjectAccessReview": {
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    },
    "SubjectAccessReview": {
        "spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    },
    "LocalSubjectAccessReview": {
        "spec": {
            "user": "u",
            "resourceAttributes": {"namespace": "fuzz", "verb": "get", "resource": "pods"},
        }
    },
    "SelfSubjectRulesReview": {"spec": {"namespace": "fuzz"}},
    "TokenReview": {"spec": {"token": "x", "audiences": ["a"]}},
    "Binding": {"target": {"kind": "Node", "name": "n"}},
    "Eviction": {"deleteOptions": {"gracePeriodSeconds": 1}},
    "TokenRequest": {"spec": {"audiences": ["a"], "expirationSeconds": 600}},
    "Scale": {"spec": {"replicas": 2}},
    "Thing": {"spec": {"size": 1, "name": "abc", "items": ["a"]}},
}
PATCHES = {
    "application/merge-patch+json": {"metadata": {"labels": {"a": "b"}}, "spec": {"x": None}},
    "application/strategic-merge-patch+json": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "$patch": "delete"}]},
    },
    "application/json-patch+json": [
        {"op": "test", "path": "/metadata/name", "value": "x"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ],
    "application/apply-patch+yaml": {"metadata": {"labels": {"a": "b"}}},
}
PROTECTED = frozenset(("namespaces", "customresourcedefinitions", "apiservices"))
"""Kinds of which only what the fuzzer named itself is deleted: the run would be over otherwise."""


@dataclass(frozen=True)
class Kind:
    """A served resource, or one of its subresources, from discovery."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresource: str = ""
    subresource_kind: str = ""

    @property
    def api_version(self) -> str:
        return self.group_version

    def path(self, namespace: str, name: str = "") -> str:
        prefix = "/api/v1" if self.group_version == "v1" else f"/apis/{self.group_version}"
        where = f"/namespaces/{namespace}" if self.namespaced else ""
        end = f"/{name}" if name else ""
        part = f"/{self.subresource}" if self.subresource and name else ""
        return f"{prefix}{where}/{self.plural}{end}{part}"

    def body(self, name: str) -> dict[str, Any]:
        kind = self.subresource_kind or self.kind
        return {
            "apiVersion": self.group_version,
            "kind": kind,
            "metadata": {} if kind.endswith("Review") else {"name": name, "labels": dict(LABELS)},
            **BODIES.get(kind, BODIES.get(self.kind, {"spec": {}})),
        }


def kinds_of(group_version: str, resources: list[dict[str, Any]]) -> list[Kind]:
    """One discovery document as kinds, subresources included."""
    found = []
    tops = {one["name"]: one["kind"] for one in resources if "/" not in one["name"]}
    for one in resources:
        plural, _, part = one["name"].partition("/")
        found.append(
            Kind(
                group_version,
                plural,
                tops.get(plural, one["kind"]),
                one["namespaced"],
                tuple(one["verbs"]),
                part,
                one["kind"] if part else "",
            )
        )
    return found
