"""The manifests of the operator: the same objects as the Helm chart renders. Pure.

`tests/unit/charts/test_same_objects.py` compares both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from manta import __version__
from manta.api.crds import crd_documents
from manta.api.ray.names import OPERATOR_ENV_PODS, OPERATOR_NAME
from manta.api.well_known import (
    LABEL_APP_COMPONENT,
    LABEL_APP_INSTANCE,
    LABEL_APP_MANAGED_BY,
    LABEL_APP_NAME,
    LABEL_APP_VERSION,
)
from manta.install.permissions import LEASE_PERMISSIONS, OPENSHIFT, PROXY, rules
from manta.operator.option_table import FLAGS

Json = dict[str, Any]

NAME = "manta"
NAMESPACE = "manta-system"
IMAGE = f"manta/operator:{__version__}"
SELECTOR = {LABEL_APP_NAME: NAME, LABEL_APP_INSTANCE: NAME}
POD_LABELS = {**SELECTOR, LABEL_APP_COMPONENT: "operator"}
OPERATOR_POD_LABELS = {**POD_LABELS, LABEL_APP_COMPONENT: OPERATOR_NAME}
LABELS = {**POD_LABELS, LABEL_APP_VERSION: __version__, LABEL_APP_MANAGED_BY: NAME}
DEPLOYMENT_LABELS = {**LABELS, LABEL_APP_NAME: OPERATOR_NAME, LABEL_APP_COMPONENT: OPERATOR_NAME}
"""KubeRay's names, so that `kubectl ray version` and other tools find the operator."""
RESTRICTED = {
    f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
}
RBAC = "rbac.authorization.k8s.io"
_USER = 65532
POD_SECURITY: Json = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"]},
}
"""Both satisfy the restricted Pod Security Standard."""


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of the operator."""

    namespace: str = NAMESPACE
    watch: tuple[str, ...] = ()
    """Namespaces to watch; empty: all."""
    image: str = IMAGE
    replicas: int = 1
    features: frozenset[str] = frozenset()
    """Settings and gates that are on and need permissions."""
    gates: str = ""
    """The value of `--feature-gates`."""
    proxy: bool = False
    webhook: bool = False
    """Whether to install the validating webhook."""
    console: str = ""
    """Address of the console in browsers; empty: there is none."""
    history_store: str = ""
    """URL to which sidecars of Ray Pods ship logs and events; empty: there are none."""

    @property
    def history_flags(self) -> list[str]:
        """Flags of the operator and the webhook; the sidecars run from the same image."""
        if not self.history_store:
            return []
        return [f"--history-store={self.history_store}", f"--history-image={self.image}"]


def all_objects(installation: Installation) -> list[Json]:
    """All objects, in the order of their creation."""
    from manta.install.console_manifests import console_objects
    from manta.install.webhook_manifests import webhook_objects

    return [
        *crd_documents(),
        namespace_object(installation),
        *access_objects(installation),
        *_workload(installation),
        *(webhook_objects(installation) if installation.webhook else ()),
        *(console_objects(installation) if installation.console else ()),
    ]


def namespace_object(installation: Installation) -> Json:
    meta = {"name": installation.namespace, "labels": {**LABELS, **RESTRICTED}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def access_objects(installation: Installation) -> list[Json]:
    """The ServiceAccount and its permissions."""
    return [_account(installation), *_grants(installation), *_leader(installation)]


def labelled(
    version: str,
    kind: str,
    name: str,
    namespace: str = "",
    *,
    labels: Mapping[str, str] = LABELS,
    **body: Any,
) -> Json:
    where = {"namespace": namespace} if namespace else {}
    meta = {"name": name, **where, "labels": dict(labels)}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **body}


def _account(installation: Installation) -> Json:
    return labelled(
        "v1", "ServiceAccount", NAME, installation.namespace, automountServiceAccountToken=False
    )


def _grants(installation: Installation) -> Iterator[Json]:
    held = rules(installation.features)
    if not installation.watch:
        yield labelled(f"{RBAC}/v1", "ClusterRole", NAME, rules=held)
        yield _binding(installation, "ClusterRole", NAME)
    for namespace in installation.watch:
        yield labelled(f"{RBAC}/v1", "Role", NAME, namespace, rules=held)
        yield _binding(installation, "Role", NAME, namespace)


def _leader(installation: Installation) -> Iterator[Json]:
    held = [one.rule for one in LEASE_PERMISSIONS]
    name, namespace = f"{NAME}-leader", installation.namespace
    yield labelled(f"{RBAC}/v1", "Role", name, namespace, rules=held)
    yield _binding(installation, "Role", name, namespace)


def _binding(installation: Installation, kind: str, name: str, namespace: str = "") -> Json:
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": installation.namespace}
    return labelled(
        f"{RBAC}/v1",
        f"{kind}Binding",
        name,
        namespace,
        roleRef={"apiGroup": RBAC, "kind": kind, "name": name},
        subjects=[subject],
    )


# ── workload ─────────────────────────────────────────────────────────────────────────────


def _workload(installation: Installation) -> Iterator[Json]:
    ports = [{"name": "metrics", "port": 8080, "targetPort": "metrics"}]
    service = {"type": "ClusterIP", "selector": dict(SELECTOR), "ports": ports}
    namespace = installation.namespace
    yield labelled("v1", "Service", f"{NAME}-metrics", namespace, spec=service)
    if installation.replicas > 1:
        budget = {"minAvailable": 1, "selector": {"matchLabels": dict(SELECTOR)}}
        yield labelled("policy/v1", "PodDisruptionBudget", NAME, namespace, spec=budget)
    spec = {
        "replicas": installation.replicas,
        "selector": {"matchLabels": dict(SELECTOR)},
        "template": {"metadata": {"labels": dict(OPERATOR_POD_LABELS)}, "spec": _pod(installation)},
    }
    yield labelled("apps/v1", "Deployment", NAME, namespace, labels=DEPLOYMENT_LABELS, spec=spec)


def _pod(installation: Installation) -> Json:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [_container(installation)],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }


def _container(installation: Installation) -> Json:
    return {
        "name": OPERATOR_NAME,
        "image": installation.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["manta", "operator"],
        "args": list(_arguments(installation)),
        "env": [{"name": OPERATOR_ENV_PODS, "value": _own_pods(installation)}],
        "ports": [
            {"name": "metrics", "containerPort": 8080},
            {"name": "probes", "containerPort": 8082},
        ],
        "livenessProbe": _probe("/healthz", delay=5, period=10),
        "readinessProbe": _probe("/readyz", delay=1, period=5),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  a volume of its own
    }


def _own_pods(installation: Installation) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted(SELECTOR.items()))
    return f"{installation.namespace}/{labels}"


def _probe(path: str, *, delay: int, period: int) -> Json:
    return {
        "httpGet": {"path": path, "port": "probes"},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
        "failureThreshold": 5,
    }


def _arguments(installation: Installation) -> Iterator[str]:
    chosen: Json = {
        "leader-election-namespace": installation.namespace,
        "use-kubernetes-proxy": installation.proxy,
    }
    for flag in FLAGS:
        if flag.chart:
            default = flag.default if flag.installed is None else flag.installed
            value = chosen.get(flag.name, default)
            yield f"--{flag.name}={str(value).lower() if isinstance(value, bool) else value}"
    if installation.watch:
        yield f"--watch-namespace={','.join(installation.watch)}"
    yield from installation.history_flags
    yield "--log-stdout-encoder=json"
    if installation.gates:
        yield f"--feature-gates={installation.gates}"


def needed_features(
    gates: Collection[str], *, proxy: bool = False, openshift: bool = False
) -> frozenset[str]:
    """The settings and gates that permissions depend on, from the names of the enabled gates."""
    more = {name for name, on in ((PROXY, proxy), (OPENSHIFT, openshift)) if on}
    return frozenset(gates) | more
