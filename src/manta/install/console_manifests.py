"""The manifests of the console, as the Helm chart renders them for `console.enabled`. Pure.

Without rights: people bring their own. The Secret with the key of its cookies is not here, as it is random;
`manta install` creates it once. `tests/unit/charts/test_same_objects.py` compares both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from manta.api.well_known import LABEL_APP_NAME
from manta.install.operator_manifests import (
    CONTAINER_SECURITY,
    LABELS,
    NAME,
    POD_SECURITY,
    SELECTOR,
    Installation,
    Json,
    labelled,
)

CONSOLE = f"{NAME}-console"
CONSOLE_URL = "http://manta-console.localhost:8267"
"""For `kubectl port-forward`."""
CONSOLE_SELECTOR = {**SELECTOR, LABEL_APP_NAME: CONSOLE}
CONSOLE_LABELS = {**LABELS, **CONSOLE_SELECTOR}
KEY = f"{CONSOLE}-key"
_PORT = 8267


def console_objects(installation: Installation) -> Iterator[Json]:
    yield _named("v1", "ServiceAccount", installation, automountServiceAccountToken=False)
    ports = [{"name": "http", "port": _PORT, "targetPort": "web"}]
    service = {"selector": dict(CONSOLE_SELECTOR), "ports": ports}
    yield _named("v1", "Service", installation, spec=service)
    pod = {
        "serviceAccountName": CONSOLE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [_container(installation)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory"}},
            {"name": "key", "secret": {"secretName": KEY, "optional": True}},
            {"name": "ca", "configMap": {"name": "kube-root-ca.crt"}},
        ],
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": dict(CONSOLE_SELECTOR)},
        "template": {"metadata": {"labels": dict(CONSOLE_SELECTOR)}, "spec": pod},
    }
    yield _named("apps/v1", "Deployment", installation, spec=spec)


def key_secret(installation: Installation, key: str) -> Json:
    """The Secret with the key of the cookies."""
    meta = {"name": KEY, "namespace": installation.namespace, "labels": dict(CONSOLE_LABELS)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"key": key}}


def _named(version: str, kind: str, installation: Installation, **body: Any) -> Json:
    namespace = installation.namespace
    return labelled(version, kind, CONSOLE, namespace, labels=CONSOLE_LABELS, **body)


def _probed(path: str, installation: Installation) -> Json:
    """The console answers to its own name only."""
    host = {"name": "Host", "value": urlsplit(installation.console).hostname}
    return {"path": path, "port": "web", "scheme": "HTTP", "httpHeaders": [host]}


def _container(installation: Installation) -> Json:
    return {
        "name": "console",
        "image": installation.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["manta", "console"],
        "args": [
            "--login=token",
            f"--listen=0.0.0.0:{_PORT}",
            f"--url={installation.console}",
            "--cookie-key-file=/etc/manta/console/key",
            "--server=https://kubernetes.default.svc",
            "--certificate-authority=/etc/manta/ca/ca.crt",
        ],
        "ports": [{"name": "web", "containerPort": _PORT}],
        "readinessProbe": {"httpGet": _probed("/readyz", installation), "periodSeconds": 5},
        "livenessProbe": {
            "httpGet": _probed("/livez", installation),
            "periodSeconds": 20,
            "timeoutSeconds": 10,
            "failureThreshold": 3,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  a volume of its own
            {"name": "key", "mountPath": "/etc/manta/console", "readOnly": True},
            {"name": "ca", "mountPath": "/etc/manta/ca", "readOnly": True},
        ],
    }
