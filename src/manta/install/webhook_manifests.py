"""The manifests of the validating webhook, as the Helm chart renders them for `webhook.enabled`. Pure.

`tests/unit/charts/test_same_objects.py` compares both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.well_known import LABEL_APP_NAME, LABEL_NAMESPACE_NAME
from manta.install.operator_manifests import (
    CONTAINER_SECURITY,
    LABELS,
    NAME,
    POD_SECURITY,
    RBAC,
    SELECTOR,
    Installation,
    Json,
    labelled,
)

WEBHOOK = f"{NAME}-webhook"
WEBHOOK_SELECTOR = {**SELECTOR, LABEL_APP_NAME: WEBHOOK}
WEBHOOK_LABELS = {**LABELS, **WEBHOOK_SELECTOR}
CERTIFICATES = f"{WEBHOOK}-certificates"
"""The Secret that the webhook creates for its certificates."""
_REPLICAS = 2


def webhook_objects(installation: Installation) -> Iterator[Json]:
    """In the order of their creation: the configuration last, when the webhook exists."""
    yield _named("v1", "ServiceAccount", installation, automountServiceAccountToken=False)
    yield from _access(installation)
    ports = [{"name": "https", "port": 443, "targetPort": "https"}]
    service = {"selector": dict(WEBHOOK_SELECTOR), "ports": ports}
    yield _named("v1", "Service", installation, spec=service)
    yield _deployment(installation)
    budget = {"minAvailable": 1, "selector": {"matchLabels": dict(WEBHOOK_SELECTOR)}}
    yield _named("policy/v1", "PodDisruptionBudget", installation, spec=budget)
    yield _cluster_scoped(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        webhooks=[_hook(installation)],
    )


def _named(version: str, kind: str, installation: Installation, **body: Any) -> Json:
    namespace = installation.namespace
    return labelled(version, kind, WEBHOOK, namespace, labels=WEBHOOK_LABELS, **body)


def _cluster_scoped(version: str, kind: str, **body: Any) -> Json:
    return labelled(version, kind, WEBHOOK, labels=WEBHOOK_LABELS, **body)


def _access(installation: Installation) -> Iterator[Json]:
    """Access to one Secret and one configuration by name; `create` cannot be limited to a name."""
    secrets = {"apiGroups": [""], "resources": ["secrets"]}
    kept = {**secrets, "resourceNames": [CERTIFICATES], "verbs": ["get", "update"]}
    configuration = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "resourceNames": [WEBHOOK],
        "verbs": ["get", "patch"],
    }
    version = f"{RBAC}/v1"
    subject = {"kind": "ServiceAccount", "name": WEBHOOK, "namespace": installation.namespace}
    reference = {"apiGroup": RBAC, "name": WEBHOOK}
    yield _named(version, "Role", installation, rules=[{**secrets, "verbs": ["create"]}, kept])
    yield _named(
        version,
        "RoleBinding",
        installation,
        roleRef={**reference, "kind": "Role"},
        subjects=[subject],
    )
    yield _cluster_scoped(version, "ClusterRole", rules=[configuration])
    yield _cluster_scoped(
        version,
        "ClusterRoleBinding",
        roleRef={**reference, "kind": "ClusterRole"},
        subjects=[subject],
    )


def _deployment(installation: Installation) -> Json:
    pod = {
        "serviceAccountName": WEBHOOK,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [_container(installation)],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}],
    }
    spec = {
        "replicas": _REPLICAS,
        "selector": {"matchLabels": dict(WEBHOOK_SELECTOR)},
        "template": {"metadata": {"labels": dict(WEBHOOK_SELECTOR)}, "spec": pod},
    }
    return _named("apps/v1", "Deployment", installation, spec=spec)


def _container(installation: Installation) -> Json:
    gates = [f"--feature-gates={installation.gates}"] if installation.gates else []
    return {
        "name": "webhook",
        "image": installation.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["manta", "webhook"],
        "args": [
            f"--service={WEBHOOK}",
            f"--namespace={installation.namespace}",
            f"--secret={CERTIFICATES}",
            f"--configuration={WEBHOOK}",
            *installation.history_flags,
            "--log-stdout-encoder=json",
            *gates,
        ],
        "ports": [{"name": "https", "containerPort": 9443}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"},
            "periodSeconds": 5,
        },
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  a volume of its own
    }


def _hook(installation: Installation) -> Json:
    """Without `caBundle`: the webhook writes it."""
    service = {
        "name": WEBHOOK,
        "namespace": installation.namespace,
        "path": "/validate",
        "port": 443,
    }
    rule = {
        "apiGroups": ["ray.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [one.plural for one in RAY_RESOURCES],
        "scope": "Namespaced",
    }
    hook: Json = {
        "name": "validate.ray.manta.io",
        "clientConfig": {"service": service},
        "rules": [rule],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    if installation.watch:
        name = LABEL_NAMESPACE_NAME
        chosen = {"key": name, "operator": "In", "values": list(installation.watch)}
        hook["namespaceSelector"] = {"matchExpressions": [chosen]}
    return hook
